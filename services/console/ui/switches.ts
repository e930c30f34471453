/** The active switches of the projects that the page shows. A switch rejects or samples events. */
import type { ProjectOutput, SwitchOutput } from '@questlog/schemas/http/admin';
import type { VNode } from 'preact';
import { type Column, html, Table, Time } from './html.ts';
import { get } from './request.ts';
import { show, useResource } from './resource.ts';

interface Row extends SwitchOutput {
  readonly project: ProjectOutput;
  readonly number: number;
}

const REFRESH_MS = 10_000;

export function Switches({ projects }: { projects: readonly ProjectOutput[] }): VNode | null {
  const switched = projects.filter(({ switches }) => switches);
  const key = switched.map(({ id, switches }) => `${id} ${switches}`).join();
  const rows = useResource(
    key,
    async (signal) => (await Promise.all(switched.map((project) => rowsOf(project, signal)))).flat(),
    REFRESH_MS,
  );
  if (switched.length === 0) return null;
  return html`<div class="part">
    <div class="part-head"><h2>Switches</h2></div>
    <p>For each event, the first matching switch of its project applies.</p>
    ${show(rows, (value) => html`<${Table} label="Switches" rows=${value} columns=${COLUMNS} />`)}
  </div>`;
}

async function rowsOf(project: ProjectOutput, signal: AbortSignal): Promise<Row[]> {
  const switches = await get<SwitchOutput[]>(`/admin/projects/${project.id}/switches`, signal);
  return switches.map((entry, i) => ({ ...entry, project, number: i + 1 }));
}

const COLUMNS: readonly Column<Row>[] = [
  ['Project', ({ project }) => project.name],
  [
    'Action',
    ({ action, sampleRate }) =>
      action === 'reject' ? 'rejects' : `keeps ${percent(sampleRate)} of the sessions`,
  ],
  ['Event type', ({ eventType }) => eventType ?? 'all'],
  ['Build', ({ buildId }) => (buildId === null ? 'all' : html`<code class="long">${buildId}</code>`)],
  ['Players', ({ playerShare }) => (playerShare === null ? 'all' : percent(playerShare))],
  ['Until', ({ until }) => (until === null ? 'removed by an operator' : html`<${Time} at=${until} />`)],
  ['Reason', ({ reason }) => reason],
  [
    'Command to remove',
    ({ project, number }) =>
      html`<code class="long">npx questlog switches clear ${project.id} ${number}</code>`,
  ],
];

function percent(share: number | null): string {
  return `${(100 * (share ?? 1)).toLocaleString(undefined, { maximumFractionDigits: 2 })}\u00a0%`;
}
