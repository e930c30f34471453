/** A proxy between a game and the product. Records requests, drops responses, and rejects requests. */
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';

export interface Passed {
  /** Method and path, such as `POST /v1/ingest/events`, without the id and the signature of an upload. */
  readonly call: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
  readonly atMs: number;
}

/**
 * Handling of a request. `lost`: the product gets the request, but the connection closes without a response. `dropped`: the
 * connection closes before the product gets the request. `held`: the game never gets a response. With a status, the proxy
 * itself responds.
 */
export type Fate =
  | 'answered'
  | 'lost'
  | 'dropped'
  | 'held'
  | { readonly status: number; readonly retryAfter?: string; readonly body?: string };

/** Returns the fate of the `nth` request of a call, from 0. */
export type FateOf = (call: string, nth: number) => Fate;

export async function frontOf(baseUrl: string) {
  let fateOf: FateOf = () => 'answered';
  const passed: Passed[] = [];
  const answered: string[] = [];
  const server = createServer(async (request, response) => {
    const { method = '', url = '', headers } = request;
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece);
    const body = Buffer.concat(pieces);
    const call = `${method} ${url.replace(/^(\/v1\/uploads)\/.*/, '$1')}`;
    const fate = fateOf(call, passed.filter((one) => one.call === call).length);
    passed.push({ call, headers, body: body.toString('latin1'), atMs: performance.now() });
    if (fate === 'dropped') return response.destroy();
    if (fate === 'held') return;
    if (typeof fate === 'object') {
      response.statusCode = fate.status;
      if (fate.retryAfter !== undefined) response.setHeader('Retry-After', fate.retryAfter);
      return response.end(fate.body ?? '{}');
    }
    const answer = await fetch(baseUrl + url, { method, headers: ownOf(headers), body });
    // The upload URL starts with the host of the request.
    const text = (await answer.text()).replaceAll(baseUrl, origin);
    if (fate === 'lost') return response.destroy();
    response.statusCode = answer.status;
    response.end(text, () => answered.push(call));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = server.address();
  const origin = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
  const close = (): void => {
    server.closeAllConnections();
    server.close();
  };
  /** Clears the list of requests. */
  const begin = (fates: FateOf): void => {
    fateOf = fates;
    passed.length = 0;
    answered.length = 0;
  };
  return { origin, passed, answered, begin, close };
}

/** Returns the headers to forward, without headers of the connection. */
function ownOf(headers: IncomingMessage['headers']): Record<string, string> {
  const names = ['content-type', 'authorization', 'idempotency-key', 'prefer'];
  return Object.fromEntries(names.flatMap((name) => (headers[name] ? [[name, String(headers[name])]] : [])));
}
