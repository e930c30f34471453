/** What every page is made of: templates without a build step, hooks that ask, and the parts that pages share. */
import { html } from 'htm/preact';
import type { ComponentChildren, VNode } from 'preact';
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { absoluteTime, relativeTime } from './format.ts';
import { errorOf } from './request.ts';

export { html };

export interface ListedProject {
  readonly id: string;
  readonly tenantId: string;
  readonly name: string;
}

export interface PageProps {
  /** Undefined: all of them. */
  readonly project: ListedProject | undefined;
  readonly projects: readonly ListedProject[];
  /** What stands behind the page's name in the address: `#/<path>/<argument>`. */
  readonly argument: string;
  /** Asks for the projects again. */
  readonly onProjects: () => void;
}

/** What was answered last, and why there is none newer. */
export interface QueryState<T> {
  readonly value: T | undefined;
  readonly error: Error | undefined;
  readonly refresh: () => void;
}

/** A question in SQL may take 25 s. */
const ANSWER_TIMEOUT_MS = 30_000;

/** Asks when `key` changes, and every so often while somebody can see the page. */
export function useQuery<T>(key: string, query: () => Promise<T>, everyMs?: number): QueryState<T> {
  const [state, setState] = useState<{ key: string; value?: T; error?: Error }>({ key });
  const latest = useRef(query);
  latest.current = query;
  const numbers = useRef({ asked: 0, settled: 0 });
  const refresh = useCallback(() => {
    numbers.current.asked += 1;
    const ownNumber = numbers.current.asked;
    const settle = (next: { value: T } | { error: Error }) => {
      clearTimeout(timeout);
      // A newer answer stands; after a failure the last one stays.
      if (ownNumber < numbers.current.settled) return;
      numbers.current.settled = ownNumber;
      setState(
        (last) => ({ ...(last.key === key ? last : {}), error: undefined, ...next, key }) as typeof last,
      );
    };
    const timeoutError = new Error(`Questlog has not answered for ${ANSWER_TIMEOUT_MS / 1000} seconds.`);
    const timeout = setTimeout(() => settle({ error: timeoutError }), ANSWER_TIMEOUT_MS);
    latest.current().then(
      (value) => settle({ value }),
      (error: unknown) => settle({ error: errorOf(error) }),
    );
  }, [key]);
  useEffect(() => {
    refresh();
    // A slow answer is waited for: to ask meanwhile would make it slower still.
    const tick = () => document.hidden || numbers.current.asked > numbers.current.settled || refresh();
    const timer = everyMs === undefined ? undefined : setInterval(tick, everyMs);
    return () => {
      clearInterval(timer);
      numbers.current.asked += 1;
      numbers.current.settled = numbers.current.asked;
    };
  }, [refresh, everyMs]);
  const isOfKey = state.key === key;
  return { value: isOfKey ? state.value : undefined, error: isOfKey ? state.error : undefined, refresh };
}

/** Shows how long ago the time was, and the time with its zone. Shows UTC on hover. */
export function Time({ at }: { at: string | number | Date }): VNode {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return html`<span>–</span>`;
  const iso = date.toISOString();
  return html`<time datetime=${iso} title=${`${iso} (UTC)`}>${relativeTime(date.getTime(), Date.now())} <small>${absoluteTime(date)}</small></time>`;
}

/** `YYYY-MM-DD hh:mm:ss[.fff]`, as ClickHouse writes UTC. */
export function fromClickHouse(text: string): Date {
  return new Date(`${text.replace(' ', 'T')}Z`);
}

export function Failure({ error }: { error: Error | undefined }): VNode | null {
  return error === undefined ? null : html`<p class="failure" role="alert">${error.message}</p>`;
}

/** Says what to do next. */
export function Empty({ children }: { children?: ComponentChildren }): VNode {
  return html`<div class="empty">${children}</div>`;
}

export function Loading(): VNode {
  return html`<p class="waiting" role="status">Loading…</p>`;
}

/** A page whose file comes when somebody opens it, so that no page waits for what the others need. */
export function lazyPage(load: () => Promise<(props: PageProps) => VNode>): (props: PageProps) => VNode {
  let view: ((props: PageProps) => VNode) | undefined;
  return (props) => {
    const { error } = useQuery('', async () => {
      view ??= await load();
    });
    if (view !== undefined) return html`<${view} ...${props} />`;
    return error === undefined ? html`<${Loading} />` : html`<${Failure} error=${error} />`;
  };
}

/** Of an address; one that was cut in the middle of an escape as it is. */
export function decodeAddress(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Characters that a cell shows on one line. */
const MAX_SHORT_CHARACTERS = 16;

export function isShort(text: string): boolean {
  return text.length <= MAX_SHORT_CHARACTERS;
}

/** Returns a value for a table cell. Shows only the beginning of a long value, and the whole value on hover. */
export function short(text: string, tag: 'span' | 'code' = 'span'): ComponentChildren {
  return isShort(text) && tag === 'span'
    ? text
    : html`<span class="clip"><${tag} title=${text}>${text}<//></span>`;
}

export interface Column<Row> {
  readonly title: string;
  readonly of: (row: Row) => ComponentChildren;
  readonly isNumber?: boolean;
  /** Keeps the cell on one line that takes the rest of the table's width. */
  readonly isRest?: boolean;
}

/** A word of this length may break anywhere. */
const LONG_WORD = /\S{20}/;

function widthOf(content: ComponentChildren): string | undefined {
  if (typeof content !== 'string') return undefined;
  return LONG_WORD.test(content) ? 'long' : isShort(content) ? 'one-line' : undefined;
}

/**
 * Rows of a page; on a phone each row is a card.
 * @param label describes the table for screen readers.
 * @param scrolls makes the table scroll inside a box: `down` for a long table with content below it, `both` if the
 * columns are not known in advance.
 */
export function Table<Row>({
  label,
  rows,
  columns,
  scrolls,
}: {
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  scrolls?: 'down' | 'both';
}): VNode {
  const classOf = ({ isNumber, isRest }: Column<Row>) => (isNumber ? 'number' : isRest ? 'rest' : undefined);
  const cell = (column: Column<Row>, row: Row) => {
    const content = column.of(row);
    return html`<td class=${classOf(column)} data-title=${column.title}><div class=${widthOf(content)}>${content}</div></td>`;
  };
  // Rows are keyed by id: else the focus passes to another row when a new one comes before it.
  return html`<div class=${`table ${scrolls ?? ''}`} tabindex=${scrolls && '0'} role="region" aria-label=${label}>
    <table>
      <thead><tr>${columns.map((column) => html`<th scope="col" class=${classOf(column)}>${column.title}</th>`)}</tr></thead>
      <tbody>${rows.map((row) => html`<tr key=${Object(row).id}>${columns.map((column) => cell(column, row))}</tr>`)}</tbody>
    </table>
  </div>`;
}
