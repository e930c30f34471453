/** Templates, hooks, and components that all pages use. */
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
  /** The project that is selected in the header. Undefined if all projects are selected. */
  readonly project: ListedProject | undefined;
  readonly projects: readonly ListedProject[];
  /** The part `<argument>` of a console address `#/<path>/<argument>`. */
  readonly argument: string;
  readonly onProjects: () => void;
}

/** The latest result of a query. If a later attempt failed, `error` is the error of that attempt. */
export interface QueryState<T> {
  readonly value: T | undefined;
  readonly error: Error | undefined;
  readonly refresh: () => void;
}

/** Timeout of a request. Longer than 25 s, which is the maximum duration of an SQL statement. */
const ANSWER_TIMEOUT_MS = 30_000;

/** Runs a query when `key` changes. With `everyMs`, also repeats the query while the page is visible. */
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
      // Ignores a result that arrives after the result of a newer query. A failed query keeps the value of an earlier query.
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
    // Waits for the running query, because a second query would slow down the first query.
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

/** Shows a time relative to now and as an absolute time. A tooltip shows the time in UTC. */
export function Time({ at }: { at: string | number | Date }): VNode {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return html`<span>–</span>`;
  const iso = date.toISOString();
  return html`<time datetime=${iso} title=${`${iso} (UTC)`}>${relativeTime(date.getTime(), Date.now())} <small>${absoluteTime(date)}</small></time>`;
}

/** Parses a UTC time in the format of ClickHouse, `YYYY-MM-DD hh:mm:ss[.fff]`. */
export function fromClickHouse(text: string): Date {
  return new Date(`${text.replace(' ', 'T')}Z`);
}

export function Failure({ error }: { error: Error | undefined }): VNode | null {
  return error === undefined ? null : html`<p class="failure" role="alert">${error.message}</p>`;
}

export function Empty({ children }: { children?: ComponentChildren }): VNode {
  return html`<div class="empty">${children}</div>`;
}

export function Loading(): VNode {
  return html`<p class="waiting" role="status">Loading…</p>`;
}

/** Returns a page whose module is loaded only when the operator opens the page. */
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

/** Decodes percent-encoded text from an address. Returns text with an invalid escape sequence unchanged. */
export function decodeAddress(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const MAX_SHORT_CHARACTERS = 16;

export function isShort(text: string): boolean {
  return text.length <= MAX_SHORT_CHARACTERS;
}

/** Returns the content of a table cell. A long text is shortened, and a tooltip shows the whole text. */
export function short(text: string, tag: 'span' | 'code' = 'span'): ComponentChildren {
  return isShort(text) && tag === 'span'
    ? text
    : html`<span class="clip"><${tag} title=${text}>${text}<//></span>`;
}

export interface Column<Row> {
  readonly title: string;
  readonly of: (row: Row) => ComponentChildren;
  readonly isNumber?: boolean;
  /** True if the cells of the column have one line and take the remaining width of the table. */
  readonly isRest?: boolean;
}

const LONG_WORD = /\S{20}/;

function widthOf(content: ComponentChildren): string | undefined {
  if (typeof content !== 'string') return undefined;
  return LONG_WORD.test(content) ? 'long' : isShort(content) ? 'one-line' : undefined;
}

/** A table. On a phone, each row is a card. */
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
  // Each row needs a key. Without keys, the focus would move to another row when a row is inserted.
  return html`<div class=${`table ${scrolls ?? ''}`} tabindex=${scrolls && '0'} role="region" aria-label=${label}>
    <table>
      <thead><tr>${columns.map((column) => html`<th scope="col" class=${classOf(column)}>${column.title}</th>`)}</tr></thead>
      <tbody>${rows.map((row) => html`<tr key=${Object(row).id}>${columns.map((column) => cell(column, row))}</tr>`)}</tbody>
    </table>
  </div>`;
}
