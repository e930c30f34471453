/** Sends requests to Questlog. If the operator is no longer signed in, dispatches an event on the window. */
import type { Problem } from '@questlog/schemas/http/problem';

/** An error response of Questlog, with the detail of the problem document (RFC 9457). */
export class Rejected extends Error {
  readonly status: number;
  /** Error message for each invalid field. The key is the path of the field, for example `reportWindow/beforeMs`. */
  readonly fields: ReadonlyMap<string, string>;

  constructor(status: number, { detail, errors = [] }: Partial<Problem>) {
    super(detail ?? `answered ${status}`);
    this.status = status;
    this.fields = new Map(errors.map(({ pointer, detail: why }) => [pointer.slice(1), why]));
  }
}

export function errorOf(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

export const SIGNED_OUT = 'questlog-signed-out';
export const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Returns the response with any status. @throws Error if Questlog does not respond. */
export async function send(
  method: string,
  path: string,
  body?: unknown,
  signal?: AbortSignal,
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  const content =
    body === undefined
      ? { headers }
      : { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json', ...headers } };
  return await fetch(path, { method, ...content, ...(signal && { signal }) }).catch(() => {
    signal?.throwIfAborted();
    throw new Error('Questlog does not answer. Is it running?');
  });
}

/** @throws Rejected for an error status. @throws Error if Questlog does not respond. */
export async function request(...of: Parameters<typeof send>): Promise<Response> {
  const response = await send(...of);
  if (response.ok) return response;
  if (response.status === 401) window.dispatchEvent(new Event(SIGNED_OUT));
  throw new Rejected(response.status, Object(await response.json().catch(() => undefined)));
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return await (await request('GET', path, undefined, signal)).json();
}

export async function post<T>(path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  return await (await request('POST', path, body, signal)).json();
}

/** A row of ClickHouse, which returns most values as texts. The names of columns that can be null are in `Nullable`. */
export type Row<Names extends string, Nullable extends string = never> = Readonly<
  Record<Names, string> & Record<Nullable, string | null>
>;

export type SqlParameters = Readonly<Record<string, string | number | readonly string[]>>;

/** Returns the rows of a query. Pass values as parameters (`{name:Type}`), never as part of the text. */
export async function sql<Row>(
  query: string,
  parameters: SqlParameters = {},
  signal?: AbortSignal,
): Promise<Row[]> {
  const { data } = await post<{ data: Row[] }>('/admin/sql', { query, parameters }, signal);
  return data;
}
