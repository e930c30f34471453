/** Sends requests to Questlog. If the operator is no longer signed in, dispatches an event on the window. */

/** An error response of Questlog, with the detail of the problem document (RFC 9457). */
export class Rejected extends Error {
  readonly status: number;
  /** Error message for each invalid field. The key is the path of the field, for example `reportWindow/beforeMs`. */
  readonly fields: ReadonlyMap<string, string>;

  constructor(status: number, message: string, fields: ReadonlyMap<string, string> = new Map()) {
    super(message);
    this.status = status;
    this.fields = fields;
  }
}

export function errorOf(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

export const SIGNED_OUT = 'questlog-signed-out';

/** @throws Rejected for an error status. @throws Error if Questlog does not respond. */
export async function request(method: string, path: string, body?: unknown): Promise<Response> {
  const response = await fetch(path, {
    method,
    ...(body !== undefined && {
      body: JSON.stringify(body),
      headers: { 'Content-Type': 'application/json' },
    }),
  }).catch(() => {
    throw new Error('Questlog does not answer. Is it running?');
  });
  if (response.ok) return response;
  if (response.status === 401) window.dispatchEvent(new Event(SIGNED_OUT));
  const problem: unknown = await response.json().catch(() => undefined);
  const { detail, errors = [] } = Object(problem) as Partial<Problem>;
  const fields = new Map(errors.map(({ pointer, detail: why }) => [pointer.slice(1), why]));
  throw new Rejected(response.status, detail ?? `answered ${response.status}`, fields);
}

interface Problem {
  readonly detail: string;
  readonly errors: readonly { readonly pointer: string; readonly detail: string }[];
}

export async function json<T>(method: string, path: string, body?: unknown): Promise<T> {
  return await (await request(method, path, body)).json();
}

/** Returns the rows of a query. Pass values as parameters (`{name:Type}`), never as part of the text. */
export async function sql<Row>(
  query: string,
  parameters: Readonly<Record<string, string | number | readonly string[]>> = {},
): Promise<Row[]> {
  const { data } = await json<{ data: Row[] }>('POST', '/admin/sql', { query, parameters });
  return data;
}
