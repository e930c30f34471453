/** Requests to this Questlog. Whoever is not signed in any more is told so by an event of the window. */

/** The sentence of the problem that was answered (RFC 9457). */
export class Refused extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export const SIGNED_OUT = 'questlog-signed-out';

/** @throws Refused; Error where nothing answers. */
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
  const detail: unknown = Reflect.get(Object(problem), 'detail');
  throw new Refused(response.status, typeof detail === 'string' ? detail : `answered ${response.status}`);
}

/** Whoever asks says the type. */
export async function json<T>(method: string, path: string, body?: unknown): Promise<T> {
  return await (await request(method, path, body)).json();
}

/** Rows of a question to ClickHouse. A value goes in as a parameter (`{name:Type}`), never into the text. */
export async function sql<Row>(
  query: string,
  parameters: Readonly<Record<string, string | number | readonly string[]>> = {},
): Promise<Row[]> {
  const { data } = await json<{ data: Row[] }>('POST', '/admin/sql', { query, parameters });
  return data;
}
