/** The exports of the projects that the page shows, and the forms that create and delete an export. */
import type { ProjectOutput } from '@questlog/schemas/http/admin';
import type { ExportOutput } from '@questlog/schemas/http/export';
import type { ComponentChildren, VNode } from 'preact';
import { useState } from 'preact/hooks';
import { type Field, FormDialog, type Values } from '../form.ts';
import { bytes, count } from '../format.ts';
import { type Column, DocsLink, html, Table, Time } from '../html.ts';
import { request } from '../request.ts';
import type { FormProps } from './entityForm.ts';

const PATH = '/admin/exports';

export function Exports(props: {
  projects: readonly ProjectOutput[];
  exports: readonly ExportOutput[];
  onChange: () => void;
}): VNode {
  const { projects, exports, onChange } = props;
  const [opened, setOpened] = useState<'new' | ExportOutput>();
  const names = new Map(projects.map(({ id, name }) => [id, name]));
  const form = { onClose: () => setOpened(undefined), onChange };
  return html`<div class="part">
    <div class="part-head"><h2>Exports</h2><${DocsLink} path="docs/querying.md#files">About exports<//>
      <button class="plain" disabled=${projects.length === 0} onClick=${() => setOpened('new')}>New export</button></div>
    <${Table} label="Exports" rows=${exports.filter(({ projectId }) => names.has(projectId))} columns=${columnsOf(names, setOpened)}
      whenEmpty="No export yet. An export writes the rows of a project to files in an S3 bucket, once or on a schedule." />
    ${opened === 'new' && html`<${ExportForm} ...${form} projects=${projects} />`}
    ${opened !== undefined && opened !== 'new' && html`<${DeleteExportForm} ...${form} job=${opened} />`}
  </div>`;
}

function columnsOf(
  projects: ReadonlyMap<string, string>,
  onDelete: (job: ExportOutput) => void,
): Column<ExportOutput>[] {
  return [
    ['Project', ({ projectId }) => projects.get(projectId)],
    ['Rows', ({ kind, format }) => html`${kind}<small>${format}</small>`],
    ['Folder', ({ path }) => html`<code class="long">${path}</code>`],
    ['State', stateOf],
    ['Schedule', scheduleOf],
    ['Last run', ({ finishedAt }) => (finishedAt === null ? 'never' : html`<${Time} at=${finishedAt} />`)],
    [
      'Files',
      ({ files, rows, bytes: size }) =>
        html`${count(files)}<small>${count(rows)} rows, ${bytes(size)}</small>`,
    ],
    [
      'Actions',
      (job) =>
        html`<button class="link" aria-label=${`Delete: ${job.path}`} onClick=${() => onDelete(job)}>Delete</button>`,
    ],
  ];
}

function stateOf({ state, problem, progress }: ExportOutput): ComponentChildren {
  const kind = problem !== null ? 'bad' : state === 'done' ? 'good' : '';
  return html`<span class=${`tag ${kind}`}>${state}</span>
    ${state === 'running' && progress && html`<small>${count(progress.rows)} of ${count(progress.allRows)} rows</small>`}
    ${problem !== null && html`<small class="long">${problem}</small>`}`;
}

function scheduleOf({ everyHours, nextRunAt }: ExportOutput): ComponentChildren {
  const next = nextRunAt !== null && html`<small>next run: <${Time} at=${nextRunAt} /></small>`;
  return html`${everyHours === null ? 'once' : `every ${count(everyHours)} h`}${next}`;
}

function ExportForm({ projects, ...form }: FormProps & { projects: readonly ProjectOutput[] }): VNode {
  const fields: Field[] = [
    { name: 'projectId', label: 'Project', options: projects },
    { name: 'kind', label: 'Kind of rows', options: ['events', 'sessions', 'reports', 'links'] },
    { name: 'format', label: 'Format', options: ['parquet', 'csv', 'ndjson'] },
    {
      ...{
        name: 'output',
        label: 'Bucket and prefix',
        placeholder: 's3://bucket/questlog',
        isRequired: true,
      },
      hint: 'The service operations writes to the bucket with its S3 settings.',
    },
    { name: 'from', label: 'First day', type: 'date', hint: 'UTC day of receipt. Leave empty for all days.' },
    { name: 'to', label: 'Day after the last day', type: 'date' },
    {
      ...{ name: 'everyHours', label: 'Hours between two runs', type: 'number' },
      hint: 'Leave empty for one run.',
    },
  ];
  const send = async (values: Values): Promise<void> => {
    await request('POST', PATH, values);
    form.onChange();
  };
  return html`<${FormDialog} title="New export" action="Create export" fields=${fields} send=${send} onClose=${form.onClose} />`;
}

function DeleteExportForm({ job, ...form }: FormProps & { job: ExportOutput }): VNode {
  const force = {
    ...{ value: 'true', isChecked: false },
    label: 'Delete the export even if its files can contain erased rows',
  };
  const fields: Field[] = [{ name: 'force', label: 'After an erasure', checks: [force] }];
  const send = async (values: Values): Promise<void> => {
    const isForced = String(values['force']) === force.value;
    await request('DELETE', `${PATH}/${job.id}?force=${isForced}`);
    form.onChange();
  };
  return html`<${FormDialog} title="Delete this export?" action="Delete" isDangerous fields=${fields} send=${send} onClose=${form.onClose}>
    <p>The export and its schedule end. The files stay in <code>${job.path}</code>, and later erasures do not rewrite them.</p>
  <//>`;
}
