/** The audit page, which shows changes by operators and rejected credentials. */
import type { AuditPage, AuditRecord } from '@questlog/schemas/http/audit';
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { Filters, ShowDialog } from '../form.ts';
import { count } from '../format.ts';
import { type Column, html, type PageProps, Table, Time } from '../html.ts';
import { show, useGet } from '../resource.ts';

const REFRESH_MS = 5_000;
const FIELDS = [{ name: 'actor', label: 'Actor', placeholder: 'console, token:1f3a' }] as const;

export function Audit({ project }: PageProps): VNode {
  const [{ actor }, setFilters] = useState<{ readonly actor?: string }>({});
  const [opened, setOpened] = useState<AuditRecord>();
  const query = new URLSearchParams({ ...(actor && { actor }), ...(project && { project: project.id }) });
  const page = useGet<AuditPage>(`/admin/audit?${query}`, REFRESH_MS);
  return html`<section>
    <${Filters} fields=${FIELDS} onFilter=${setFilters} />
    ${show(
      page,
      ({ audit, next }) => html`
        <p class="status" role="status">${next === null ? `${count(audit.length)} in the last year.` : `Showing the newest ${count(audit.length)}.`}</p>
        <${Table} label="Changes and rejected credentials, newest first" rows=${audit} columns=${columnsOf(setOpened)}
          whenEmpty="There are no entries. Each change by an operator and each rejected credential is kept here for a year." />`,
    )}
    ${
      opened &&
      html`<${ShowDialog} title=${`${opened.method} ${opened.route}`} onClose=${() => setOpened(undefined)}>
        <pre tabindex="0">${JSON.stringify(opened, null, 2)}</pre>
      <//>`
    }
  </section>`;
}

function columnsOf(onOpen: (entry: AuditRecord) => void): Column<AuditRecord>[] {
  return [
    ['When', ({ at }) => html`<${Time} at=${at} />`],
    ['Who', ({ actor, address }) => html`<span class="long">${actor}</span><small>from ${address}</small>`],
    [
      'What',
      ({ method, route, target }) =>
        html`<span class="long">${method} ${route}</span>${target && html`<small>${target}</small>`}`,
    ],
    ['Answer', (entry) => html`${entry.status ?? 'unknown'}<small>${answerOf(entry)}</small>`],
    [
      'Details',
      (entry) =>
        html`<button class="link" aria-label=${`Show: ${entry.id}`} onClick=${() => onOpen(entry)}>Show</button>`,
    ],
  ];
}

function answerOf({ kind, code, count: times, status }: AuditRecord): string {
  if (status === null) return 'no response yet, or the process ended';
  if (kind === 'refusal' && times > 1) return `${code}, ${count(times)} times`;
  return code ?? 'done';
}
