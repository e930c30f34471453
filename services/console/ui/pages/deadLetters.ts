/** The page of the dead letters: records that could not be processed. The operator can replay or discard dead letters. */
import type {
  DeadLetterPage,
  InspectedDeadLetter,
  ListedDeadLetter,
} from '@questlog/schemas/http/deadLetter';
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { Filters, FormDialog, ShowDialog } from '../form.ts';
import { count } from '../format.ts';
import { type Column, html, Table, Time } from '../html.ts';
import { request } from '../request.ts';
import { show, useGet } from '../resource.ts';

type Opened = { readonly kind: 'show' | 'replay' | 'discard'; readonly letter: ListedDeadLetter };

const REFRESH_MS = 5_000;
const PATH = '/admin/dead-letters';
const FIELDS = [
  { name: 'state', label: 'State', options: ['open', 'replayed', 'discarded'] },
  { name: 'cause', label: 'Cause', placeholder: 'text in the cause' },
];

export function DeadLetters(): VNode {
  const [{ state = 'open', cause = '' }, setFilters] = useState<Readonly<Record<string, string>>>({});
  const [opened, setOpened] = useState<Opened>();
  const query = new URLSearchParams({ state, ...(cause && { cause }) });
  const page = useGet<DeadLetterPage>(`${PATH}?${query}`, REFRESH_MS);
  const close = () => setOpened(undefined);
  return html`<section>
    <${Filters} fields=${FIELDS} onFilter=${setFilters} />
    ${show(
      page,
      ({ deadLetters, next, open }) => html`
        <p class="status" role="status">Open: ${count(open)}.${next !== null && ` Showing the newest ${count(deadLetters.length)}.`}</p>
        <${Table} label="Dead letters, newest first" rows=${deadLetters} columns=${columnsOf(setOpened)}
          whenEmpty="No dead letters. A record that a consumer cannot process is kept here with its cause for 30 days." />`,
    )}
    ${opened?.kind === 'show' && html`<${DeadLetterDialog} letter=${opened.letter} onClose=${close} />`}
    ${opened && opened.kind !== 'show' && html`<${Decision} ...${opened} onClose=${close} onChange=${page.refresh} />`}
  </section>`;
}

function columnsOf(onOpen: (opened: Opened) => void): Column<ListedDeadLetter>[] {
  const button = (text: string, kind: Opened['kind'], letter: ListedDeadLetter) =>
    html`<button class="link" aria-label=${`${text}: ${letter.id}`} onClick=${() => onOpen({ kind, letter })}>${text}</button>`;
  return [
    ['Dead since', ({ deadAt }) => html`<${Time} at=${deadAt} />`],
    ['Cause', ({ reason, group }) => html`<span class="long">${reason}</span><small>of ${group}</small>`],
    [
      'Record',
      ({ topic, partition, offset }) => html`${topic}<small>partition ${partition}, offset ${offset}</small>`,
    ],
    ['Key', ({ key }) => html`<code class="long">${key ?? '–'}</code>`],
    [
      'Action',
      (letter) => html`<span class="actions">
        ${button('Show', 'show', letter)}
        ${letter.state === 'open' && [button('Replay', 'replay', letter), button('Discard', 'discard', letter)]}
        ${letter.decidedAt && html`<${Time} at=${letter.decidedAt} />`}
      </span>`,
    ],
  ];
}

function DeadLetterDialog({ letter, onClose }: { letter: ListedDeadLetter; onClose: () => void }): VNode {
  const inspected = useGet<InspectedDeadLetter>(`${PATH}/${letter.id}`);
  return html`<${ShowDialog} title="Dead letter" onClose=${onClose}>
    ${show(inspected, (value) => html`<pre tabindex="0">${JSON.stringify(value, null, 2)}</pre>`)}
  <//>`;
}

function Decision(props: Opened & { onClose: () => void; onChange: () => void }): VNode {
  const { kind, letter, onClose, onChange } = props;
  const isReplay = kind === 'replay';
  const send = async (): Promise<void> => {
    if (isReplay) await request('POST', `${PATH}/${letter.id}/replay`);
    else await request('DELETE', `${PATH}/${letter.id}`);
    onChange();
  };
  const explanation = isReplay
    ? 'Questlog appends the record again. The record counts once. If its cause is not fixed, it becomes a new dead letter.'
    : 'The dead letter is closed and expires as usual. Its record is not stored.';
  return html`<${FormDialog} title=${isReplay ? 'Replay this record?' : 'Discard this dead letter?'} action=${isReplay ? 'Replay' : 'Discard'} isDangerous=${!isReplay} send=${send} onClose=${onClose}>
    <p>${explanation}</p>
    <p class="said">${letter.reason}</p>
  <//>`;
}
