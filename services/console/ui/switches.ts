/** The active switches of the projects that the page shows. A switch rejects or samples events. */
import type { VNode } from 'preact';
import { Failure, html, Table, Time, useQuery } from './html.ts';
import { json } from './request.ts';

interface Switch {
  readonly eventType: string | null;
  readonly buildId: string | null;
  readonly playerShare: number | null;
  readonly action: 'reject' | 'sample';
  readonly sampleRate: number | null;
  readonly until: string | null;
  readonly reason: string;
}

interface SwitchedProject {
  readonly id: string;
  readonly name: string;
  readonly switches: number;
}

interface Row extends Switch {
  readonly project: SwitchedProject;
  readonly number: number;
}

const REFRESH_MS = 10_000;

export function Switches({ projects }: { projects: readonly SwitchedProject[] }): VNode | null {
  const switched = projects.filter(({ switches }) => switches > 0);
  const key = switched.map(({ id, switches }) => `${id} ${switches}`).join();
  const { value = [], error } = useQuery(
    key,
    async () => (await Promise.all(switched.map(rowsOf))).flat(),
    REFRESH_MS,
  );
  if (switched.length === 0) return null;
  return html`<div class="part">
    <div class="part-head"><h2>Switches</h2></div>
    <p>For each event, the first matching switch of its project applies.</p>
    <${Failure} error=${error} />
    <${Table} label="Switches" rows=${value} columns=${COLUMNS} />
  </div>`;
}

async function rowsOf(project: SwitchedProject): Promise<Row[]> {
  const switches = await json<Switch[]>('GET', `/admin/projects/${project.id}/switches`);
  return switches.map((entry, i) => ({ ...entry, project, number: i + 1 }));
}

const COLUMNS = [
  { title: 'Project', of: ({ project }: Row) => project.name },
  {
    title: 'Action',
    of: ({ action, sampleRate }: Row) =>
      action === 'reject' ? 'rejects' : `keeps ${percent(sampleRate)} of the sessions`,
  },
  { title: 'Event type', of: ({ eventType }: Row) => eventType ?? 'all' },
  {
    title: 'Build',
    of: ({ buildId }: Row) => (buildId === null ? 'all' : html`<code class="long">${buildId}</code>`),
  },
  { title: 'Players', of: ({ playerShare }: Row) => (playerShare === null ? 'all' : percent(playerShare)) },
  {
    title: 'Until',
    of: ({ until }: Row) => (until === null ? 'removed by an operator' : html`<${Time} at=${until} />`),
  },
  { title: 'Reason', of: ({ reason }: Row) => reason },
  {
    title: 'Command to remove',
    of: ({ project, number }: Row) =>
      html`<code class="long">npx questlog switches clear ${project.id} ${number}</code>`,
  },
];

function percent(share: number | null): string {
  return `${(100 * (share ?? 1)).toLocaleString(undefined, { maximumFractionDigits: 2 })}\u00a0%`;
}
