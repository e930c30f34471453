/** Templates and components that all pages use. */
import type { ProjectOutput } from '@questlog/schemas/http/admin';
import { html } from 'htm/preact';
import type { ComponentChildren, VNode } from 'preact';
import { absoluteTime, relativeTime } from './format.ts';

export { html };

export interface PageProps {
  /** The project that is selected in the header. Undefined if all projects are selected. */
  readonly project: ProjectOutput | undefined;
  readonly projects: readonly ProjectOutput[];
  /** The part `<argument>` of a console address `#/<path>/<argument>`. */
  readonly argument: string;
  readonly onProjects: () => void;
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

export function millisOf(id: string): number {
  return Number.parseInt(id.replace('-', '').slice(0, 12), 16);
}

/** Address of the documentation. The path of a page is its path in the repository, for example `docs/operating/outages.md`. */
const DOCUMENTATION = 'https://github.com/questlog/questlog/blob/main/';

export function DocsLink({ path, children = path }: { path: string; children?: ComponentChildren }): VNode {
  return html`<a href=${DOCUMENTATION + path} target="_blank" rel="noreferrer">${children}</a>`;
}

/** Replaces the path of each documentation page in the text with a link to the page. */
export function withDocsLinks(text: string): ComponentChildren {
  const parts = text.split(/(docs\/[\w/-]+\.md)/);
  return parts.map((part, i) => (i % 2 === 1 ? html`<${DocsLink} path=${part} />` : part));
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

/** Decodes percent-encoded text from an address. Returns text with an invalid escape sequence unchanged. */
export function decodeAddress(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Returns the name of each project by its id. A project that does not exist is named by the beginning of its id. */
export function projectNames(projects: readonly ProjectOutput[]): (id: string) => string {
  const names = new Map(projects.map(({ id, name }) => [id, name]));
  return (id) => names.get(id) ?? id.slice(0, 8);
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

/** Returns the beginning of an id. A tooltip shows the whole id. */
export function shortId(id: string | null): ComponentChildren {
  return id === null ? '–' : html`<code title=${id}>${id.slice(0, 8)}</code>`;
}

/** @property kind - `rest`: the cells have one line and take the remaining width of the table */
export type Column<Row> = readonly [
  title: string,
  of: (row: Row) => ComponentChildren,
  kind?: 'number' | 'rest',
];

const LONG_WORD = /\S{20}/;

function widthOf(content: ComponentChildren): string | undefined {
  if (typeof content !== 'string') return undefined;
  return LONG_WORD.test(content) ? 'long' : isShort(content) ? 'one-line' : undefined;
}

/** A table, or `whenEmpty` if there are no rows. On a phone, each row is a card. */
export function Table<Row>(props: {
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  scrolls?: 'down' | 'both';
  whenEmpty?: string;
}): VNode {
  const { label, rows, columns, scrolls, whenEmpty } = props;
  if (rows.length === 0 && whenEmpty) return html`<${Empty}><p>${whenEmpty}</p><//>`;
  const cell = ([title, of, kind]: Column<Row>, row: Row) => {
    const content = of(row);
    return html`<td class=${kind} data-title=${title}><div class=${widthOf(content)}>${content}</div></td>`;
  };
  // Each row needs a key. Without keys, the focus would move to another row when a row is inserted.
  return html`<div class=${`table ${scrolls ?? ''}`} tabindex=${scrolls && '0'} role="region" aria-label=${label}>
    <table>
      <thead><tr>${columns.map(([title, , kind]) => html`<th scope="col" class=${kind}>${title}</th>`)}</tr></thead>
      <tbody>${rows.map((row) => html`<tr key=${Object(row).id}>${columns.map((column) => cell(column, row))}</tr>`)}</tbody>
    </table>
  </div>`;
}
