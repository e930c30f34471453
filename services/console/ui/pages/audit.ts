/** The audit page, which shows changes by operators and rejected credentials. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { Dialog } from '../form.ts';
import { count } from '../format.ts';
import {
  type Column,
  Empty,
  Failure,
  html,
  Loading,
  type PageProps,
  Table,
  Time,
  useQuery,
} from '../html.ts';
import { json } from '../request.ts';

interface Entry {
  readonly id: string;
  readonly kind: 'change' | 'refusal';
  readonly at: string;
  readonly doneAt: string | null;
  readonly actor: string;
  readonly address: string;
  readonly method: string;
  readonly route: string;
  readonly target: string | null;
  readonly status: number | null;
  readonly code: string | null;
  readonly count: number;
}

interface Answer {
  readonly audit: readonly Entry[];
  readonly next: string | null;
}

const REFRESH_MS = 5_000;

export function Audit({ project }: PageProps): VNode {
  const [actor, setActor] = useState('');
  const [opened, setOpened] = useState<Entry>();
  const query = new URLSearchParams({ ...(actor && { actor }), ...(project && { project: project.id }) });
  const { value, error } = useQuery(
    `${query}`,
    () => json<Answer>('GET', `/admin/audit?${query}`),
    REFRESH_MS,
  );
  const onActor = (event: Event) => setActor((event.target as HTMLInputElement).value);
  const countText =
    value &&
    (value.next === null
      ? `${count(value.audit.length)} in the last year.`
      : `Showing the newest ${count(value.audit.length)}.`);
  return html`<section>
    <form class="filters" onSubmit=${(event: Event) => event.preventDefault()}>
      <label>Actor <input value=${actor} onInput=${onActor} placeholder="console, token:1f3a" /></label>
    </form>
    <${Failure} error=${error} />
    ${value === undefined && error === undefined && html`<${Loading} />`}
    ${value && html`<p class="status" role="status">${countText}</p>`}
    ${
      value?.audit.length === 0 &&
      html`<${Empty}><p>There are no entries. Each change by an operator and each rejected credential is kept here for a year.</p><//>`
    }
    ${value && value.audit.length > 0 && html`<${Table} label="Changes and rejected credentials, newest first" rows=${value.audit} columns=${columnsOf(setOpened)} />`}
    ${
      opened &&
      html`<${Dialog} title=${`${opened.method} ${opened.route}`} onClose=${() => setOpened(undefined)}>
        <pre tabindex="0">${JSON.stringify(opened, null, 2)}</pre>
        <form method="dialog" class="actions"><button class="plain" autofocus>Close</button></form>
      <//>`
    }
  </section>`;
}

function columnsOf(onOpen: (entry: Entry) => void): Column<Entry>[] {
  return [
    { title: 'When', of: ({ at }) => html`<${Time} at=${at} />` },
    {
      title: 'Who',
      of: ({ actor, address }) => html`<span class="long">${actor}</span><small>from ${address}</small>`,
    },
    {
      title: 'What',
      of: ({ method, route, target }) =>
        html`<span class="long">${method} ${route}</span>${target && html`<small>${target}</small>`}`,
    },
    {
      title: 'Answer',
      of: (entry) => html`${entry.status ?? 'unknown'}<small>${answerOf(entry)}</small>`,
    },
    {
      title: 'Details',
      of: (entry) =>
        html`<button class="link" aria-label=${`Show: ${entry.id}`} onClick=${() => onOpen(entry)}>Show</button>`,
    },
  ];
}

function answerOf({ kind, code, count: times, status }: Entry): string {
  if (status === null) return 'no response yet, or the process ended';
  if (kind === 'refusal' && times > 1) return `${code}, ${count(times)} times`;
  return code ?? 'done';
}
