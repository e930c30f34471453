/** The page on which operators create and change tenants, projects, and tokens, and send test events. */
import type { ProjectOutput, TenantOutput, TokenCreated, TokenOutput } from '@questlog/schemas/http/admin';
import type { VNode } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { changesOf, Dialog, type Field, FormDialog, type Values } from '../form.ts';
import { count } from '../format.ts';
import { type Column, html, type PageProps, Table, Time } from '../html.ts';
import { get, post, request } from '../request.ts';
import { show, useResource } from '../resource.ts';
import { Switches } from '../switches.ts';
import { TestEvent } from '../testEvent.ts';

interface Entities {
  readonly tenants: readonly TenantOutput[];
  readonly tokens: readonly TokenOutput[];
}

type Opened =
  | { readonly kind: 'tenant'; readonly of: TenantOutput | undefined }
  | { readonly kind: 'project'; readonly of: ProjectOutput | undefined }
  | { readonly kind: 'token' }
  | { readonly kind: 'revoke'; readonly of: TokenOutput };

const REFRESH_MS = 10_000;
const SCOPES = [
  { value: 'events:write', label: 'events:write: send events, sessions and files', isChecked: true },
  { value: 'reports:write', label: 'reports:write: file bug reports', isChecked: true },
  { value: 'read', label: 'read: read events, reports and links', isChecked: false },
];

async function loadEntities(signal: AbortSignal): Promise<Entities> {
  const [tenants, tokens] = await Promise.all([
    get<TenantOutput[]>('/admin/tenants', signal),
    get<TokenOutput[]>('/admin/tokens', signal),
  ]);
  return { tenants, tokens };
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
  const { project, onChange } = props;
  const [opened, setOpened] = useState<Opened>();
  const [secret, setSecret] = useState('');
  const [test, setTest] = useState<{ project: ProjectOutput; number: number }>();
  const tenants = props.tenants.filter(({ id }) => project === undefined || id === project.tenantId);
  const projects = props.projects.filter(({ id }) => project === undefined || id === project.id);
  const tokens = props.tokens.filter(({ projectId }) => project === undefined || projectId === project.id);
  const tenantNames = new Map(props.tenants.map(({ id, name }) => [id, name]));
  const projectNames = new Map(props.projects.map(({ id, name }) => [id, name]));
  const sendTest = (of: ProjectOutput) =>
    setTest((last) => ({ project: of, number: (last?.number ?? 0) + 1 }));
  const dialog = { onClose: () => setOpened(undefined), onChange };
  return html`
    <${Section} title="Tenants" action="New tenant" onAction=${() => setOpened({ kind: 'tenant', of: undefined })}
      rows=${tenants} columns=${tenantColumns((of) => setOpened({ kind: 'tenant', of }))}
      whenEmpty="No tenant yet. A tenant is a studio. Each tenant has its own quota and its own order of events." />
    <${Section} title="Projects" action="New project" isOff=${tenants.length === 0} onAction=${() => setOpened({ kind: 'project', of: undefined })}
      rows=${projects} columns=${projectColumns(tenantNames, (of) => setOpened({ kind: 'project', of }), sendTest)}
      whenEmpty="No project yet. A project is a game of a tenant. Create the tenant first." />
    <${Switches} projects=${projects} />
    ${test && html`<${TestEvent} key=${`${test.project.id} ${test.number}`} project=${test.project} />`}
    <${Section} title="Access tokens" action="New token" isOff=${projects.length === 0} onAction=${() => setOpened({ kind: 'token' })}
      rows=${tokens} columns=${tokenColumns(projectNames, (of) => setOpened({ kind: 'revoke', of }))}
      whenEmpty="No token yet. A game sends a token with every request. Create the project first." />
    ${opened?.kind === 'tenant' && html`<${TenantForm} ...${dialog} tenant=${opened.of} />`}
    ${opened?.kind === 'project' && html`<${ProjectForm} ...${dialog} project=${opened.of} tenants=${props.tenants} />`}
    ${opened?.kind === 'token' && html`<${TokenForm} ...${dialog} projects=${projects} onMade=${setSecret} />`}
    ${opened?.kind === 'revoke' && html`<${RevokeForm} ...${dialog} token=${opened.of} name=${projectNames.get(opened.of.projectId)} />`}
    ${secret && html`<${Secret} token=${secret} onClose=${() => setSecret('')} />`}`;
}

function Section<Row>(props: {
  title: string;
  action: string;
  isOff?: boolean;
  onAction: () => void;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  whenEmpty: string;
}): VNode {
  const { title, action, isOff = false, onAction, ...table } = props;
  return html`<div class="part">
    <div class="part-head"><h2>${title}</h2><button class="plain" disabled=${isOff} onClick=${onAction}>${action}</button></div>
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

function tenantColumns(onEdit: (tenant: TenantOutput) => void): Column<TenantOutput>[] {
  return [
    ['Name', ({ name }) => name],
    ['Events per month', ({ monthlySoftQuota: of }) => (of === null ? 'no quota' : count(of)), 'number'],
    ['Spread', ({ spread }) => spread, 'number'],
    ...ID_AND_CREATED,
    ['Actions', (tenant) => rowButton('Edit', tenant.name, () => onEdit(tenant))],
  ];
}

function projectColumns(
  tenants: ReadonlyMap<string, string>,
  onEdit: (project: ProjectOutput) => void,
  onTest: (project: ProjectOutput) => void,
): Column<ProjectOutput>[] {
  return [
    ['Name', ({ name }) => name],
    ['Tenant', ({ tenantId }) => tenants.get(tenantId) ?? tenantId],
    ['Revision', ({ revision }) => revision ?? 'default'],
    [
      'Report window',
      ({ reportWindow: of }) =>
        of === null ? 'default' : `${of.beforeMs / 1000} s before, ${of.afterMs / 1000} s after`,
    ],
    ...ID_AND_CREATED,
    [
      'Actions',
      (project) => html`<span class="actions">
        ${rowButton('Edit', project.name, () => onEdit(project))}
        ${rowButton('Send test event', project.name, () => onTest(project))}
      </span>`,
    ],
  ];
}

function tokenColumns(
  projects: ReadonlyMap<string, string>,
  onRevoke: (token: TokenOutput) => void,
): Column<TokenOutput>[] {
  const expired = html`<span class="tag bad">expired</span>`;
  return [
    ['Project', ({ projectId }) => projects.get(projectId) ?? projectId],
    ['Scopes', ({ scopes }) => scopes.join(', ')],
    ['Builds', ({ buildIds }) => buildIds?.join(', ') ?? 'all'],
    [
      'Expires',
      ({ expiresAt }) =>
        expiresAt === null
          ? 'never'
          : html`<${Time} at=${expiresAt} /> ${Date.parse(expiresAt) < Date.now() && expired}`,
    ],
    ['Last used', ({ lastUsedAt: at }) => (at === null ? 'never' : html`<${Time} at=${at} />`)],
    ...ID_AND_CREATED,
    ['Actions', (token) => rowButton('Revoke', `token ${token.id}`, () => onRevoke(token))],
  ];
}

interface FormProps {
  readonly onClose: () => void;
  readonly onChange: () => void;
}

/** A form that creates an entity or changes an opened entity. */
function EntityForm(
  props: FormProps & {
    path: string;
    name: string;
    opened: { readonly id: string } | undefined;
    fields: readonly Field[];
    bodyOf: (values: Values) => Values;
  },
): VNode {
  const { path, name, opened, fields, bodyOf, onClose, onChange } = props;
  const send = async (values: Values): Promise<void> => {
    const body = bodyOf(values);
    if (opened === undefined) await request('POST', path, body);
    else await request('PATCH', `${path}/${opened.id}`, changesOf(body, opened));
    onChange();
  };
  const [title, action] = opened ? [`Edit ${name}`, 'Save'] : [`New ${name}`, `Create ${name}`];
  return html`<${FormDialog} title=${title} action=${action} fields=${fields} send=${send} onClose=${onClose} />`;
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

function TokenForm(
  props: FormProps & { projects: readonly ProjectOutput[]; onMade: (token: string) => void },
): VNode {
  const { projects, onMade, onClose, onChange } = props;
  const fields: Field[] = [
    { name: 'projectId', label: 'Project', options: projects },
    { name: 'scopes', label: 'Scopes', checks: SCOPES },
    {
      ...{ name: 'expiresAt', label: 'Expires', type: 'datetime-local' },
      hint: 'Your local time. Leave empty for no expiry.',
    },
  ];
  const send = async (values: Values): Promise<void> => {
    onMade((await post<TokenCreated>('/admin/tokens', values)).token);
    onChange();
  };
  return html`<${FormDialog} title="New token" action="Create token" fields=${fields} send=${send} onClose=${onClose} />`;
}

/** Shows a new token only one time, because Questlog stores only the SHA-256 hash of a token. */
function Secret({ token, onClose }: { token: string; onClose: () => void }): VNode {
  const [message, setMessage] = useState('');
  const tokenElement = useRef<HTMLElement>(null);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(token);
      setMessage('Copied.');
    } catch {
      if (tokenElement.current) getSelection()?.selectAllChildren(tokenElement.current);
      setMessage('The browser does not allow this page to copy. The token is selected: press Ctrl+C.');
    }
  };
  return html`<${Dialog} title="New token" onClose=${onClose}>
    <p>The token is shown only once. Copy it now and store it with the secrets of the game.</p>
    <pre ref=${tokenElement} tabindex="0">${token}</pre>
    <form method="dialog" class="actions">
      <button type="button" autofocus onClick=${copy}>Copy</button>
      <button class="plain">Close</button>
      <span role="status">${message}</span>
    </form>
  <//>`;
}

function RevokeForm(props: FormProps & { token: TokenOutput; name?: string }): VNode {
  const { token, name = '', onClose, onChange } = props;
  const send = async (): Promise<void> => {
    await request('DELETE', `/admin/tokens/${token.id}`);
    onChange();
  };
  return html`<${FormDialog} title="Revoke this token?" action="Revoke" isDangerous send=${send} onClose=${onClose}>
    <p>Within 2 seconds, Questlog rejects requests with the token <code>${token.id}</code> of ${name}. This cannot be undone. You
      can create a new token at any time.</p>
  <//>`;
}
