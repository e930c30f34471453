/** The page of the dead letters: records that could not be processed. The operator can replay or discard dead letters. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { Dialog, FormDialog } from '../form.ts';
import { count } from '../format.ts';
import { type Column, Empty, Failure, html, Loading, Table, Time, useQuery } from '../html.ts';
import { json, request } from '../request.ts';

interface DeadLetter {
  readonly id: string;
  readonly state: string;
  readonly deadAt: string;
  readonly decidedAt: string | null;
  readonly group: string;
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly key: string | null;
  readonly reason: string;
}

interface Answer {
  readonly deadLetters: readonly DeadLetter[];
  readonly next: string | null;
  readonly open: number;
}

type Opened = { readonly kind: 'show' | 'replay' | 'discard'; readonly letter: DeadLetter };

const REFRESH_MS = 5_000;
const PATH = '/admin/dead-letters';
const STATES = ['open', 'replayed', 'discarded'];

export function DeadLetters(): VNode {
  const [state, setState] = useState('open');
  const [cause, setCause] = useState('');
  const [opened, setOpened] = useState<Opened>();
  const query = new URLSearchParams({ state, ...(cause && { cause }) });
  const { value, error, refresh } = useQuery(
    `${query}`,
    () => json<Answer>('GET', `${PATH}?${query}`),
    REFRESH_MS,
  );
  const textOf = (event: Event) => (event.target as HTMLInputElement).value;
  const close = () => setOpened(undefined);
  const more = value?.next == null ? '' : ` Showing the newest ${count(value.deadLetters.length)}.`;
  return html`<section>
    <form class="filters" onSubmit=${(event: Event) => event.preventDefault()}>
      <label>State
        <select onChange=${(event: Event) => setState(textOf(event))}>${STATES.map((one) => html`<option selected=${one === state}>${one}</option>`)}</select>
      </label>
      <label>Cause <input value=${cause} onInput=${(event: Event) => setCause(textOf(event))} placeholder="text in the cause" /></label>
    </form>
    <${Failure} error=${error} />
    ${value === undefined && error === undefined && html`<${Loading} />`}
    ${value && html`<p class="status" role="status">Open: ${count(value.open)}.${more}</p>`}
    ${
      value?.deadLetters.length === 0 &&
      html`<${Empty}><p>No dead letters. A record that a consumer cannot process is kept here with its cause for 30 days.</p><//>`
    }
    ${value && value.deadLetters.length > 0 && html`<${Table} label="Dead letters, newest first" rows=${value.deadLetters} columns=${columnsOf(setOpened)} />`}
    ${opened?.kind === 'show' && html`<${DeadLetterDialog} letter=${opened.letter} onClose=${close} />`}
    ${opened && opened.kind !== 'show' && html`<${Decision} ...${opened} onClose=${close} onChange=${refresh} />`}
  </section>`;
}

function columnsOf(onOpen: (opened: Opened) => void): Column<DeadLetter>[] {
  const button = (text: string, kind: Opened['kind'], letter: DeadLetter) =>
    html`<button class="link" aria-label=${`${text}: ${letter.id}`} onClick=${() => onOpen({ kind, letter })}>${text}</button>`;
  return [
    { title: 'Dead since', of: ({ deadAt }) => html`<${Time} at=${deadAt} />` },
    {
      title: 'Cause',
      of: ({ reason, group }) => html`<span class="long">${reason}</span><small>of ${group}</small>`,
    },
    {
      title: 'Record',
      of: ({ topic, partition, offset }) =>
        html`${topic}<small>partition ${partition}, offset ${offset}</small>`,
    },
    { title: 'Key', of: ({ key }) => html`<code class="long">${key ?? '–'}</code>` },
    {
      title: 'Action',
      of: (letter) => html`<span class="actions">
        ${button('Show', 'show', letter)}
        ${letter.state === 'open' && [button('Replay', 'replay', letter), button('Discard', 'discard', letter)]}
        ${letter.decidedAt && html`<${Time} at=${letter.decidedAt} />`}
      </span>`,
    },
  ];
}

function DeadLetterDialog({ letter, onClose }: { letter: DeadLetter; onClose: () => void }): VNode {
  const { value, error } = useQuery(letter.id, () => json<object>('GET', `${PATH}/${letter.id}`));
  return html`<${Dialog} title="Dead letter" onClose=${onClose}>
    <${Failure} error=${error} />
    ${value ? html`<pre tabindex="0">${JSON.stringify(value, null, 2)}</pre>` : !error && html`<${Loading} />`}
    <form method="dialog" class="actions"><button class="plain" autofocus>Close</button></form>
  <//>`;
}

function Decision({
  kind,
  letter,
  onClose,
  onChange,
}: Opened & { onClose: () => void; onChange: () => void }): VNode {
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
