/** The page on which operators create and change tenants, projects, tokens, readers, and exports, and send test events. */
import type { ProjectOutput, ReaderOutput, TenantOutput, TokenOutput } from '@questlog/schemas/http/admin';
import type { ExportOutput } from '@questlog/schemas/http/export';
import type { ComponentChildren, VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { Field, Values } from '../form.ts';
import { count } from '../format.ts';
import { type Column, DocsLink, html, type PageProps, Table, Time } from '../html.ts';
import { EntityForm, type FormProps } from '../manage/entityForm.ts';
import { Exports } from '../manage/exports.ts';
import { LimitsForm, limitsText, RetentionForm, retentionText } from '../manage/limits.ts';
import { DropReaderForm, ReaderForm, RotateReaderForm } from '../manage/readers.ts';
import { RemoveSwitchForm, Switches, SwitchForm, type SwitchRow } from '../manage/switches.ts';
import { TestEvent } from '../manage/testEvent.ts';
import { type NewSecret, RevokeForm, RotateForm, Secret, TokenForm } from '../manage/tokens.ts';
import { get } from '../request.ts';
import { show, useResource } from '../resource.ts';

interface Entities {
  readonly tenants: readonly TenantOutput[];
  readonly tokens: readonly TokenOutput[];
  readonly readers: readonly ReaderOutput[];
  readonly exports: readonly ExportOutput[];
}

type Opened =
  | { readonly kind: 'tenant'; readonly of: TenantOutput | undefined }
  | { readonly kind: 'project'; readonly of: ProjectOutput | undefined }
  | { readonly kind: 'tenant limits'; readonly of: TenantOutput }
  | { readonly kind: 'project limits' | 'retention' | 'switch'; readonly of: ProjectOutput }
  | { readonly kind: 'remove switch'; readonly of: SwitchRow }
  | { readonly kind: 'token' | 'reader' }
  | { readonly kind: 'rotate' | 'revoke'; readonly of: TokenOutput }
  | { readonly kind: 'rotate reader' | 'drop reader'; readonly of: ReaderOutput };
type Open = (opened: Opened) => void;

const REFRESH_MS = 10_000;
async function loadEntities(signal: AbortSignal): Promise<Entities> {
  const [tenants, tokens, readers, exports] = await Promise.all([
    get<TenantOutput[]>('/admin/tenants', signal),
    get<TokenOutput[]>('/admin/tokens', signal),
    get<ReaderOutput[]>('/admin/readers', signal),
    get<ExportOutput[]>('/admin/exports', signal),
  ]);
  return { tenants, tokens, readers, exports };
}

export function Manage(page: PageProps): VNode {
  const entities = useResource('', loadEntities, REFRESH_MS);
  const onChange = () => {
    entities.refresh();
    page.onProjects();
  };
  return html`<section>${show(entities, (value) => html`<${Lists} ...${page} ...${value} onChange=${onChange} />`)}</section>`;
}

function Lists(props: PageProps & Entities & { onChange: () => void }): VNode {
  const { project } = props;
  const [opened, setOpened] = useState<Opened>();
  const [secret, setSecret] = useState<NewSecret>();
  const [test, setTest] = useState<{ project: ProjectOutput; number: number }>();
  const tenants = props.tenants.filter(({ id }) => project === undefined || id === project.tenantId);
  const projects = props.projects.filter(({ id }) => project === undefined || id === project.id);
  const tokens = props.tokens.filter(({ projectId }) => project === undefined || projectId === project.id);
  const readers = props.readers.filter(
    (of) =>
      project === undefined ||
      of.projectId === project.id ||
      (of.projectId === null && of.tenantId === project.tenantId),
  );
  const tenantNames = new Map(props.tenants.map(({ id, name }) => [id, name]));
  const projectNames = new Map(props.projects.map(({ id, name }) => [id, name]));
  const sendTest = (of: ProjectOutput) =>
    setTest((last) => ({ project: of, number: (last?.number ?? 0) + 1 }));
  return html`
    <${Section} title="Tenants" docs="docs/operating/quotas.md" action="New tenant" onAction=${() => setOpened({ kind: 'tenant', of: undefined })}
      rows=${tenants} columns=${tenantColumns(setOpened)}
      whenEmpty="No tenant yet. A tenant is a studio. Each tenant has its own quota and its own order of events." />
    <${Section} title="Projects" docs="docs/operating/rate-limits.md" action="New project" isOff=${tenants.length === 0} onAction=${() => setOpened({ kind: 'project', of: undefined })}
      rows=${projects} columns=${projectColumns(tenantNames, setOpened, sendTest)}
      whenEmpty="No project yet. A project is a game of a tenant. Create the tenant first." />
    <${Switches} projects=${projects} onRemove=${(of: SwitchRow) => setOpened({ kind: 'remove switch', of })} />
    ${test && html`<${TestEvent} key=${`${test.project.id} ${test.number}`} project=${test.project} />`}
    <${Section} title="Access tokens" docs="docs/operating/tokens.md" action="New token" isOff=${projects.length === 0} onAction=${() => setOpened({ kind: 'token' })}
      rows=${tokens} columns=${tokenColumns(projectNames, setOpened)}
      whenEmpty="No token yet. A game sends a token with every request. Create the project first." />
    <${Section} title="Readers" docs="docs/operating/kafka.md#accounts-of-studios" action="New reader" isOff=${tenants.length === 0} onAction=${() => setOpened({ kind: 'reader' })}
      rows=${readers} columns=${readerColumns(tenantNames, projectNames, setOpened)}
      whenEmpty="No reader yet. A reader is an account of ClickHouse that sees only the rows of one tenant or project." />
    <${Exports} projects=${projects} exports=${props.exports} onChange=${props.onChange} />
    ${opened && dialogOf(opened, { ...props, projects, onClose: () => setOpened(undefined), onMade: setSecret })}
    ${secret && html`<${Secret} ...${secret} onClose=${() => setSecret(undefined)} />`}`;
}

function dialogOf(
  opened: Opened,
  props: Pick<PageProps, 'projects'> & Entities & FormProps & { onMade: (secret: NewSecret) => void },
): VNode {
  const { projects, tenants, onClose, onChange, onMade } = props;
  const dialog = { onClose, onChange };
  switch (opened.kind) {
    case 'tenant':
      return html`<${TenantForm} ...${dialog} tenant=${opened.of} />`;
    case 'tenant limits':
      return html`<${LimitsForm} ...${dialog} path="/admin/tenants" of=${opened.of} />`;
    case 'project':
      return html`<${ProjectForm} ...${dialog} project=${opened.of} tenants=${tenants} />`;
    case 'project limits':
      return html`<${LimitsForm} ...${dialog} path="/admin/projects" of=${opened.of} />`;
    case 'retention':
      return html`<${RetentionForm} ...${dialog} project=${opened.of} />`;
    case 'switch':
      return html`<${SwitchForm} ...${dialog} project=${opened.of} />`;
    case 'remove switch':
      return html`<${RemoveSwitchForm} ...${dialog} row=${opened.of} />`;
    case 'token':
      return html`<${TokenForm} ...${dialog} projects=${projects} onMade=${onMade} />`;
    case 'rotate':
      return html`<${RotateForm} ...${dialog} token=${opened.of} onMade=${onMade} />`;
    case 'revoke': {
      const name = projects.find(({ id }) => id === opened.of.projectId)?.name;
      return html`<${RevokeForm} ...${dialog} token=${opened.of} name=${name} />`;
    }
    case 'reader':
      return html`<${ReaderForm} ...${dialog} tenants=${tenants} projects=${projects} onMade=${onMade} />`;
    case 'rotate reader':
      return html`<${RotateReaderForm} ...${dialog} reader=${opened.of} onMade=${onMade} />`;
    case 'drop reader':
      return html`<${DropReaderForm} ...${dialog} reader=${opened.of} />`;
  }
}

function Section<Row>(props: {
  title: string;
  /** Page of the documentation about the section. */
  docs: string;
  action: string;
  isOff?: boolean;
  onAction: () => void;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  whenEmpty: string;
}): VNode {
  const { title, docs, action, isOff = false, onAction, ...table } = props;
  return html`<div class="part">
    <div class="part-head"><h2>${title}</h2><${DocsLink} path=${docs}>About ${title.toLowerCase()}<//><button class="plain" disabled=${isOff} onClick=${onAction}>${action}</button></div>
    <${Table} label=${title} ...${table} />
  </div>`;
}

/** A button in a table row. Its label for screen readers names the row, because all rows have the same button text. */
function rowButton(text: string, of: string, onClick: () => void): VNode {
  return html`<button class="link" aria-label=${`${text}: ${of}`} onClick=${onClick}>${text}</button>`;
}

const ID_AND_CREATED: readonly Column<{ readonly id: string; readonly createdAt: string }>[] = [
  ['Id', ({ id }) => html`<code class="long">${id}</code>`],
  ['Created', ({ createdAt }) => html`<${Time} at=${createdAt} />`],
];

function nameOf({ name, suspended }: Pick<TenantOutput, 'name' | 'suspended'>): ComponentChildren {
  return suspended ? html`${name} <span class="tag bad">suspended</span>` : name;
}

function tenantColumns(open: Open): Column<TenantOutput>[] {
  return [
    ['Name', nameOf],
    ['Events per month', ({ monthlySoftQuota: of }) => (of === null ? 'no quota' : count(of)), 'number'],
    ['Spread', ({ spread }) => spread, 'number'],
    ['Limits', limitsText],
    ...ID_AND_CREATED,
    [
      'Actions',
      (of) => html`<span class="actions">
        ${rowButton('Edit', of.name, () => open({ kind: 'tenant', of }))}
        ${rowButton('Limits', of.name, () => open({ kind: 'tenant limits', of }))}
      </span>`,
    ],
  ];
}

function projectColumns(
  tenants: ReadonlyMap<string, string>,
  open: Open,
  onTest: (project: ProjectOutput) => void,
): Column<ProjectOutput>[] {
  return [
    ['Name', nameOf],
    ['Tenant', ({ tenantId }) => tenants.get(tenantId) ?? tenantId],
    ['Revision', ({ revision }) => revision ?? 'default'],
    [
      'Report window',
      ({ reportWindow: of }) =>
        of === null ? 'default' : `${of.beforeMs / 1000} s before, ${of.afterMs / 1000} s after`,
    ],
    ['Limits', (project) => html`${limitsText(project)} <small>${retentionText(project)}</small>`],
    ...ID_AND_CREATED,
    [
      'Actions',
      (of) => html`<span class="actions">
        ${rowButton('Edit', of.name, () => open({ kind: 'project', of }))}
        ${rowButton('Limits', of.name, () => open({ kind: 'project limits', of }))}
        ${rowButton('Retention', of.name, () => open({ kind: 'retention', of }))}
        ${rowButton('New switch', of.name, () => open({ kind: 'switch', of }))}
        ${rowButton('Send test event', of.name, () => onTest(of))}
      </span>`,
    ],
  ];
}

function expiryOf({ expiresAt }: { readonly expiresAt: string | null }): ComponentChildren {
  if (expiresAt === null) return 'never';
  const expired = html`<span class="tag bad">expired</span>`;
  return html`<${Time} at=${expiresAt} /> ${Date.parse(expiresAt) < Date.now() && expired}`;
}

function readerColumns(
  tenants: ReadonlyMap<string, string>,
  projects: ReadonlyMap<string, string>,
  open: Open,
): Column<ReaderOutput>[] {
  return [
    ['Name', ({ name }) => name],
    ['Tenant', ({ tenantId }) => tenants.get(tenantId) ?? tenantId],
    ['Project', ({ projectId }) => (projectId === null ? 'all' : (projects.get(projectId) ?? projectId))],
    ['Account', ({ username }) => html`<code class="long">${username}</code>`],
    ['Expires', expiryOf],
    ['Created', ({ createdAt }) => html`<${Time} at=${createdAt} />`],
    [
      'Actions',
      (of) => html`<span class="actions">
        ${rowButton('New password', of.username, () => open({ kind: 'rotate reader', of }))}
        ${rowButton('Drop', of.username, () => open({ kind: 'drop reader', of }))}
      </span>`,
    ],
  ];
}

function tokenColumns(projects: ReadonlyMap<string, string>, open: Open): Column<TokenOutput>[] {
  return [
    ['Project', ({ projectId }) => projects.get(projectId) ?? projectId],
    ['Scopes', ({ scopes }) => scopes.join(', ')],
    ['Builds', ({ buildIds }) => buildIds?.join(', ') ?? 'all'],
    ['Expires', expiryOf],
    ['Last used', ({ lastUsedAt: at }) => (at === null ? 'never' : html`<${Time} at=${at} />`)],
    ...ID_AND_CREATED,
    [
      'Actions',
      (of) => html`<span class="actions">
        ${of.rotatedTo === null && rowButton('Rotate', `token ${of.id}`, () => open({ kind: 'rotate', of }))}
        ${rowButton('Revoke', `token ${of.id}`, () => open({ kind: 'revoke', of }))}
      </span>`,
    ],
  ];
}

function TenantForm({ tenant, ...form }: FormProps & { tenant: TenantOutput | undefined }): VNode {
  const fields: Field[] = [
    { name: 'name', label: 'Name', hint: 'Name of the studio', value: tenant?.name },
    {
      ...{ name: 'monthlySoftQuota', label: 'Events per month', type: 'number' },
      hint: 'Monthly quota. Events above the quota are stored and flagged. Leave empty for no quota.',
      value: tenant?.monthlySoftQuota,
    },
    {
      ...{ name: 'spread', label: 'Spread', type: 'number', value: tenant?.spread ?? 1 },
      hint: 'Number of partitions for new sessions. With 1, all events of the tenant stay in order.',
    },
  ];
  const bodyOf = (values: Values) => ({ ...values, spread: values['spread'] ?? 1 });
  return html`<${EntityForm} ...${form} path="/admin/tenants" name="tenant" opened=${tenant} fields=${fields} bodyOf=${bodyOf} />`;
}

function ProjectForm(
  props: FormProps & { project: ProjectOutput | undefined; tenants: readonly TenantOutput[] },
): VNode {
  const { project, tenants, ...form } = props;
  const { beforeMs, afterMs } = project?.reportWindow ?? {};
  const seconds = (ms: number | undefined) => (ms === undefined ? null : ms / 1000);
  const fields: Field[] = [
    { name: 'tenantId', label: 'Tenant', options: tenants },
    { name: 'name', label: 'Name', hint: 'Name of the game', value: project?.name },
    {
      ...{ name: 'revision', label: 'Revision of the contract', value: project?.revision },
      hint: 'A requires a session for every event and reports events over quota. B does neither.',
      options: [{ id: '', name: 'default of this Questlog' }, 'A', 'B'],
    },
    {
      ...{ name: 'reportWindow/beforeMs', label: 'Seconds before a report', type: 'number', scale: 1000 },
      hint: 'A report is linked to the events of its session in this time range. Leave both fields empty for the default.',
      value: seconds(beforeMs),
    },
    {
      ...{ name: 'reportWindow/afterMs', label: 'Seconds after a report', type: 'number', scale: 1000 },
      value: seconds(afterMs),
    },
  ];
  const bodyOf = ({ 'reportWindow/beforeMs': before, 'reportWindow/afterMs': after, ...rest }: Values) => ({
    ...rest,
    reportWindow: before === null && after === null ? null : { beforeMs: before ?? 0, afterMs: after ?? 0 },
  });
  return html`<${EntityForm} ...${form} path="/admin/projects" name="project" opened=${project} fields=${project ? fields.slice(1) : fields} bodyOf=${bodyOf} />`;
}
