/** The page on which operators create and change tenants, projects, and tokens, and send test events. */
import type { VNode } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { changesOf, Dialog, type Field, FormDialog, numberOf } from '../form.ts';
import { count } from '../format.ts';
import { Empty, Failure, html, Loading, type PageProps, Table, Time, useQuery } from '../html.ts';
import { json, request } from '../request.ts';
import { Switches } from '../switches.ts';
import { TestEvent } from '../testEvent.ts';

interface Tenant {
  readonly id: string;
  readonly name: string;
  readonly monthlySoftQuota: number | null;
  readonly spread: number;
  readonly createdAt: string;
}

interface Project {
  readonly id: string;
  readonly tenantId: string;
  readonly name: string;
  readonly revision: 'A' | 'B' | null;
  readonly reportWindow: { readonly beforeMs: number; readonly afterMs: number } | null;
  readonly switches: number;
  readonly createdAt: string;
}

interface Token {
  readonly id: string;
  readonly projectId: string;
  readonly scopes: readonly string[];
  readonly buildIds: readonly string[] | null;
  readonly expiresAt: string | null;
  readonly lastUsedAt: string | null;
  readonly createdAt: string;
}

interface Directory {
  readonly tenants: readonly Tenant[];
  readonly projects: readonly Project[];
  readonly tokens: readonly Token[];
}

type Opened =
  | { readonly kind: 'tenant'; readonly of: Tenant | undefined }
  | { readonly kind: 'project'; readonly of: Project | undefined }
  | { readonly kind: 'token' }
  | { readonly kind: 'revoke'; readonly of: Token };

const REFRESH_MS = 10_000;
const SCOPES = [
  { value: 'events:write', label: 'send events, sessions and files' },
  { value: 'reports:write', label: 'file bug reports' },
  { value: 'read', label: 'read events, reports and links' },
];

async function loadDirectory(): Promise<Directory> {
  const [tenants, projects, tokens] = await Promise.all([
    json<Tenant[]>('GET', '/admin/tenants'),
    json<Project[]>('GET', '/admin/projects'),
    json<Token[]>('GET', '/admin/tokens'),
  ]);
  return { tenants, projects, tokens };
}

export function Manage({ project, onProjects }: PageProps): VNode {
  const { value, error, refresh } = useQuery('directory', loadDirectory, REFRESH_MS);
  const [opened, setOpened] = useState<Opened>();
  const [secret, setSecret] = useState('');
  const [test, setTest] = useState<{ project: Project; number: number }>();
  if (value === undefined) return error ? html`<${Failure} error=${error} />` : html`<${Loading} />`;
  const tenants = value.tenants.filter(({ id }) => project === undefined || id === project.tenantId);
  const projects = value.projects.filter(({ id }) => project === undefined || id === project.id);
  const tokens = value.tokens.filter(({ projectId }) => project === undefined || projectId === project.id);
  const tenantNames = new Map(value.tenants.map(({ id, name }) => [id, name]));
  const projectNames = new Map(value.projects.map(({ id, name }) => [id, name]));
  const changed = () => {
    refresh();
    onProjects();
  };
  const sendTest = (of: Project) => setTest((last) => ({ project: of, number: (last?.number ?? 0) + 1 }));
  const dialog = { onClose: () => setOpened(undefined), onChange: changed };
  return html`<section>
    <${Failure} error=${error} />
    <${Section} title="Tenants" action="New tenant" onAction=${() => setOpened({ kind: 'tenant', of: undefined })}
      isEmpty=${tenants.length === 0} whenEmpty="No tenant yet. A tenant is a studio. Each tenant has its own quota and its own order of events.">
      <${Table} label="Tenants" rows=${tenants} columns=${tenantColumns((of) => setOpened({ kind: 'tenant', of }))} />
    <//>
    <${Section} title="Projects" action="New project" isOff=${tenants.length === 0} onAction=${() => setOpened({ kind: 'project', of: undefined })}
      isEmpty=${projects.length === 0} whenEmpty="No project yet. A project is a game of a tenant. Create the tenant first.">
      <${Table} label="Projects" rows=${projects} columns=${projectColumns(tenantNames, (of) => setOpened({ kind: 'project', of }), sendTest)} />
    <//>
    <${Switches} projects=${projects} />
    ${test && html`<${TestEvent} key=${`${test.project.id} ${test.number}`} project=${test.project} />`}
    <${Section} title="Access tokens" action="New token" isOff=${projects.length === 0} onAction=${() => setOpened({ kind: 'token' })}
      isEmpty=${tokens.length === 0} whenEmpty="No token yet. A game sends a token with every request. Create the project first.">
      <${Table} label="Access tokens" rows=${tokens} columns=${tokenColumns(projectNames, (of) => setOpened({ kind: 'revoke', of }))} />
    <//>
    ${opened?.kind === 'tenant' && html`<${TenantForm} ...${dialog} tenant=${opened.of} />`}
    ${opened?.kind === 'project' && html`<${ProjectForm} ...${dialog} project=${opened.of} tenants=${value.tenants} />`}
    ${opened?.kind === 'token' && html`<${TokenForm} ...${dialog} projects=${projects} onMade=${setSecret} />`}
    ${opened?.kind === 'revoke' && html`<${RevokeForm} ...${dialog} token=${opened.of} name=${projectNames.get(opened.of.projectId)} />`}
    ${secret && html`<${Secret} token=${secret} onClose=${() => setSecret('')} />`}
  </section>`;
}

function Section(props: {
  title: string;
  action: string;
  isOff?: boolean;
  isEmpty: boolean;
  whenEmpty: string;
  onAction: () => void;
  children?: VNode;
}): VNode {
  const { title, action, isOff = false, isEmpty, whenEmpty, onAction, children } = props;
  return html`<div class="part">
    <div class="part-head"><h2>${title}</h2><button class="plain" disabled=${isOff} onClick=${onAction}>${action}</button></div>
    ${isEmpty ? html`<${Empty}><p>${whenEmpty}</p><//>` : children}
  </div>`;
}

/** A button in a table row. Its label for screen readers names the row, because all rows have the same button text. */
function RowButton({ text, of, onClick }: { text: string; of: string; onClick: () => void }): VNode {
  return html`<button class="link" aria-label=${`${text}: ${of}`} onClick=${onClick}>${text}</button>`;
}

const ID = { title: 'Id', of: ({ id }: { id: string }) => html`<code class="long">${id}</code>` };
const CREATED = {
  title: 'Created',
  of: ({ createdAt }: { createdAt: string }) => html`<${Time} at=${createdAt} />`,
};

function tenantColumns(onEdit: (tenant: Tenant) => void) {
  return [
    { title: 'Name', of: ({ name }: Tenant) => name },
    {
      title: 'Events per month',
      of: ({ monthlySoftQuota }: Tenant) =>
        monthlySoftQuota === null ? 'no quota' : count(monthlySoftQuota),
      isNumber: true,
    },
    { title: 'Spread', of: ({ spread }: Tenant) => spread, isNumber: true },
    ID,
    CREATED,
    {
      title: 'Actions',
      of: (tenant: Tenant) =>
        html`<${RowButton} text="Edit" of=${tenant.name} onClick=${() => onEdit(tenant)} />`,
    },
  ];
}

function projectColumns(
  tenants: ReadonlyMap<string, string>,
  onEdit: (project: Project) => void,
  onTest: (project: Project) => void,
) {
  return [
    { title: 'Name', of: ({ name }: Project) => name },
    { title: 'Tenant', of: ({ tenantId }: Project) => tenants.get(tenantId) ?? tenantId },
    { title: 'Revision', of: ({ revision }: Project) => revision ?? 'default' },
    {
      title: 'Report window',
      of: ({ reportWindow }: Project) =>
        reportWindow === null
          ? 'default'
          : `${reportWindow.beforeMs / 1000} s before, ${reportWindow.afterMs / 1000} s after`,
    },
    ID,
    CREATED,
    {
      title: 'Actions',
      of: (project: Project) => html`<span class="actions">
        <${RowButton} text="Edit" of=${project.name} onClick=${() => onEdit(project)} />
        <${RowButton} text="Send test event" of=${project.name} onClick=${() => onTest(project)} />
      </span>`,
    },
  ];
}

function tokenColumns(projects: ReadonlyMap<string, string>, onRevoke: (token: Token) => void) {
  return [
    { title: 'Project', of: ({ projectId }: Token) => projects.get(projectId) ?? projectId },
    { title: 'Scopes', of: ({ scopes }: Token) => scopes.join(', ') },
    { title: 'Builds', of: ({ buildIds }: Token) => buildIds?.join(', ') ?? 'all' },
    {
      title: 'Expires',
      of: ({ expiresAt }: Token) =>
        expiresAt === null
          ? 'never'
          : html`<${Time} at=${expiresAt} /> ${Date.parse(expiresAt) < Date.now() && html`<span class="tag bad">expired</span>`}`,
    },
    {
      title: 'Last used',
      of: ({ lastUsedAt }: Token) => (lastUsedAt === null ? 'never' : html`<${Time} at=${lastUsedAt} />`),
    },
    ID,
    CREATED,
    {
      title: 'Actions',
      of: (token: Token) =>
        html`<${RowButton} text="Revoke" of=${`token ${token.id}`} onClick=${() => onRevoke(token)} />`,
    },
  ];
}

interface FormProps {
  readonly onClose: () => void;
  readonly onChange: () => void;
}

function TenantForm({ tenant, onClose, onChange }: FormProps & { tenant: Tenant | undefined }): VNode {
  const fields: Field[] = [
    { name: 'name', label: 'Name', hint: 'Name of the studio', value: tenant?.name ?? '' },
    {
      ...{ name: 'monthlySoftQuota', label: 'Events per month', type: 'number' },
      hint: 'Monthly quota. Events above the quota are stored and flagged. Leave empty for no quota.',
      value: tenant?.monthlySoftQuota ?? null,
    },
    {
      ...{ name: 'spread', label: 'Spread', type: 'number', value: tenant?.spread ?? 1 },
      hint: 'Number of partitions for new sessions. With 1, all events of the tenant stay in order.',
    },
  ];
  const send = async (form: FormData): Promise<void> => {
    const body = {
      name: String(form.get('name')),
      monthlySoftQuota: numberOf(form, 'monthlySoftQuota'),
      spread: numberOf(form, 'spread') ?? 1,
    };
    if (tenant === undefined) await request('POST', '/admin/tenants', body);
    else await request('PATCH', `/admin/tenants/${tenant.id}`, changesOf(body, tenant));
    onChange();
  };
  const title = tenant === undefined ? 'New tenant' : 'Edit tenant';
  return html`<${FormDialog} title=${title} action=${tenant ? 'Save' : 'Create tenant'} fields=${fields} send=${send} onClose=${onClose} />`;
}

function ProjectForm({
  project,
  tenants,
  onClose,
  onChange,
}: FormProps & { project: Project | undefined; tenants: readonly Tenant[] }): VNode {
  const tenantField: Field = {
    ...{ name: 'tenantId', label: 'Tenant' },
    options: tenants.map(({ id, name }) => ({ value: id, label: name })),
  };
  const seconds = (ms: number | undefined) => (ms === undefined ? null : ms / 1000);
  const milliseconds = (of: number | null | undefined) => Math.round((of ?? 0) * 1000);
  const fields: Field[] = [
    ...(project === undefined ? [tenantField] : []),
    { name: 'name', label: 'Name', hint: 'Name of the game', value: project?.name ?? '' },
    {
      ...{ name: 'revision', label: 'Revision of the contract', value: project?.revision ?? '' },
      hint: 'A requires a session for every event and reports events over quota. B does neither.',
      options: [
        { value: '', label: 'default of this Questlog' },
        { value: 'A', label: 'A' },
        { value: 'B', label: 'B' },
      ],
    },
    {
      ...{ name: 'reportWindow/beforeMs', label: 'Seconds before a report', type: 'number', scale: 1000 },
      hint: 'A report is linked to the events of its session in this time range. Leave both fields empty for the default.',
      value: seconds(project?.reportWindow?.beforeMs),
    },
    {
      ...{ name: 'reportWindow/afterMs', label: 'Seconds after a report', type: 'number', scale: 1000 },
      value: seconds(project?.reportWindow?.afterMs),
    },
  ];
  const send = async (form: FormData): Promise<void> => {
    const [before, after] = ['reportWindow/beforeMs', 'reportWindow/afterMs'].map((name) =>
      numberOf(form, name),
    );
    const body = {
      name: String(form.get('name')),
      revision: form.get('revision') || null,
      reportWindow:
        before == null && after == null
          ? null
          : { beforeMs: milliseconds(before), afterMs: milliseconds(after) },
    };
    if (project === undefined) {
      await request('POST', '/admin/projects', { ...body, tenantId: form.get('tenantId') });
    } else await request('PATCH', `/admin/projects/${project.id}`, changesOf(body, project));
    onChange();
  };
  const title = project === undefined ? 'New project' : 'Edit project';
  return html`<${FormDialog} title=${title} action=${project ? 'Save' : 'Create project'} fields=${fields} send=${send} onClose=${onClose} />`;
}

function TokenForm({
  projects,
  onMade,
  onClose,
  onChange,
}: FormProps & { projects: readonly Project[]; onMade: (token: string) => void }): VNode {
  const fields: Field[] = [
    {
      ...{ name: 'projectId', label: 'Project' },
      options: projects.map(({ id, name }) => ({ value: id, label: name })),
    },
    {
      ...{ name: 'scopes', label: 'Scopes' },
      checks: SCOPES.map(({ value, label }) => ({
        ...{ value, label: `${value}: ${label}`, isChecked: value !== 'read' },
      })),
    },
    {
      name: 'expiresAt',
      label: 'Expires',
      type: 'datetime-local',
      hint: 'Your local time. Leave empty for no expiry.',
    },
  ];
  const send = async (form: FormData): Promise<void> => {
    const expires = String(form.get('expiresAt'));
    const { token } = await json<{ token: string }>('POST', '/admin/tokens', {
      projectId: form.get('projectId'),
      scopes: form.getAll('scopes'),
      expiresAt: expires === '' ? null : new Date(expires).toISOString(),
    });
    onMade(token);
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

function RevokeForm({
  token,
  name = '',
  onClose,
  onChange,
}: FormProps & { token: Token; name: string | undefined }): VNode {
  const send = async (): Promise<void> => {
    await request('DELETE', `/admin/tokens/${token.id}`);
    onChange();
  };
  return html`<${FormDialog} title="Revoke this token?" action="Revoke" isDangerous send=${send} onClose=${onClose}>
    <p>Within 2 seconds, Questlog rejects requests with the token <code>${token.id}</code> of ${name}. This cannot be undone. You
      can create a new token at any time.</p>
  <//>`;
}
