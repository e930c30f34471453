/** The active switches of the projects that the page shows, and the forms that add and remove a switch. */
import type { ProjectOutput, SwitchOutput } from '@questlog/schemas/http/admin';
import type { VNode } from 'preact';
import { type Field, FormDialog, type Values } from '../form.ts';
import { type Column, DocsLink, html, Table, Time } from '../html.ts';
import { get, request } from '../request.ts';
import { show, useResource } from '../resource.ts';
import type { FormProps } from './entityForm.ts';

/** A switch and its project. */
export interface SwitchRow {
  readonly project: ProjectOutput;
  readonly of: SwitchOutput;
}

const REFRESH_MS = 10_000;

export function Switches(props: {
  projects: readonly ProjectOutput[];
  onRemove: (row: SwitchRow) => void;
}): VNode | null {
  const { projects, onRemove } = props;
  const switched = projects.filter(({ switches }) => switches);
  const key = switched.map(({ id, switches }) => `${id} ${switches}`).join();
  const rows = useResource(
    key,
    async (signal) => (await Promise.all(switched.map((project) => rowsOf(project, signal)))).flat(),
    REFRESH_MS,
  );
  if (switched.length === 0) return null;
  return html`<div class="part">
    <div class="part-head"><h2>Switches</h2><${DocsLink} path="docs/operating/switches.md">About switches<//></div>
    <p>For each event, the first matching switch of its project applies.</p>
    ${show(rows, (value) => html`<${Table} label="Switches" rows=${value} columns=${columnsOf(onRemove)} />`)}
  </div>`;
}

async function rowsOf(project: ProjectOutput, signal: AbortSignal): Promise<SwitchRow[]> {
  const switches = await get<SwitchOutput[]>(`/admin/projects/${project.id}/switches`, signal);
  return switches.map((of) => ({ project, of }));
}

function columnsOf(onRemove: (row: SwitchRow) => void): Column<SwitchRow>[] {
  return [
    ['Project', ({ project }) => project.name],
    [
      'Action',
      ({ of: { action, sampleRate } }) =>
        action === 'reject' ? 'rejects' : `keeps ${percent(sampleRate)} of the sessions`,
    ],
    ['Event type', ({ of }) => of.eventType ?? 'all'],
    [
      'Build',
      ({ of: { buildId } }) => (buildId === null ? 'all' : html`<code class="long">${buildId}</code>`),
    ],
    ['Players', ({ of: { playerShare } }) => (playerShare === null ? 'all' : percent(playerShare))],
    [
      'Until',
      ({ of: { until } }) => (until === null ? 'removed by an operator' : html`<${Time} at=${until} />`),
    ],
    ['Reason', ({ of }) => of.reason],
    [
      'Actions',
      (row) =>
        html`<button class="link" aria-label=${`Remove: ${row.of.reason}`} onClick=${() => onRemove(row)}>Remove</button>`,
    ],
  ];
}

/** Changes the list of switches. Questlog rejects the change if another operator has changed the list since it was read. */
async function changeSwitches(
  { id }: ProjectOutput,
  change: (switches: readonly SwitchOutput[]) => readonly object[],
): Promise<void> {
  const path = `/admin/projects/${id}/switches`;
  const read = await request('GET', path);
  const headers = { 'If-Match': read.headers.get('ETag') ?? '' };
  await request('PUT', path, change(await read.json()), undefined, headers);
}

/** Fields of the form. Each name begins with the index of the new switch in the list, as in the error messages of the API. */
const FIELDS: readonly Field[] = [
  {
    ...{ name: '0/action', label: 'Action', value: 'reject' },
    options: [
      { id: 'reject', name: 'reject the events' },
      { id: 'sample', name: 'keep a sample of the sessions' },
    ],
  },
  { name: '0/sampleRate', label: 'Sessions to keep, in percent', type: 'number', hint: 'Only for a sample.' },
  { name: '0/eventType', label: 'Event type', hint: 'Leave a criterion empty to match all events.' },
  { name: '0/buildId', label: 'Build id' },
  { name: '0/playerShare', label: 'Players, in percent', type: 'number' },
  {
    name: '0/until',
    label: 'Until',
    type: 'datetime-local',
    hint: 'Your local time. Leave empty for no end.',
  },
  { name: '0/reason', label: 'Reason', hint: 'Clients receive the reason with each rejected event.' },
];

export function SwitchForm({ project, onClose, onChange }: FormProps & { project: ProjectOutput }): VNode {
  const send = async (values: Values): Promise<void> => {
    const given = Object.fromEntries(Object.entries(values).map(([name, value]) => [name.slice(2), value]));
    const added = {
      ...given,
      eventType: given['eventType'] || null,
      buildId: given['buildId'] || null,
      ...{ sampleRate: shareOf(given['sampleRate']), playerShare: shareOf(given['playerShare']) },
    };
    await changeSwitches(project, (switches) => [added, ...switches]);
    onChange();
  };
  return html`<${FormDialog} title=${`New switch of ${project.name}`} action="Add switch" fields=${FIELDS} send=${send} onClose=${onClose} />`;
}

export function RemoveSwitchForm(props: FormProps & { row: SwitchRow }): VNode {
  const { row, onClose, onChange } = props;
  const send = async (): Promise<void> => {
    const removed = JSON.stringify(row.of);
    await changeSwitches(row.project, (switches) =>
      switches.filter((one) => JSON.stringify(one) !== removed),
    );
    onChange();
  };
  return html`<${FormDialog} title="Remove this switch?" action="Remove" isDangerous send=${send} onClose=${onClose}>
    <p>Within 2 seconds, ${row.project.name} stores events that this switch ${row.of.action === 'reject' ? 'rejected' : 'dropped'}: ${row.of.reason}</p>
  <//>`;
}

function shareOf(percents: unknown): number | null {
  return typeof percents === 'number' ? percents / 100 : null;
}

function percent(share: number | null): string {
  return `${(100 * (share ?? 1)).toLocaleString(undefined, { maximumFractionDigits: 2 })}\u00a0%`;
}
