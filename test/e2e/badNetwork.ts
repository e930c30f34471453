/** What may stand between a game and Questlog: it loses answers, cuts them off and gives its own. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, request as requestTo, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';

export const FAULTS = {
  lostRequest: 'the connection drops before Questlog has the request',
  lostAnswer: 'the connection drops once Questlog has answered',
  halfAnswer: 'half of the answer comes',
  garbage: 'a sign-in page comes instead of the answer',
  unavailable: 'a 503 comes once Questlog has answered',
  tooMany: 'a 429 comes instead of Questlog',
} as const;
export type Fault = keyof typeof FAULTS;

export interface BadNetwork {
  readonly url: string;
  /** Requests that have come. */
  readonly requests: number;
  close(): void;
}

/** @param faultOf what happens to a request, by its number from 1; undefined: it passes. */
export async function badNetwork(
  target: string,
  faultOf: (request: number) => Fault | undefined,
): Promise<BadNetwork> {
  let requests = 0;
  const server = createServer((request, response) => {
    // A browser asks first; what it asks for then is what may fail.
    const isAsking = request.method === 'OPTIONS';
    if (!isAsking) requests += 1;
    forward(target, request, response, isAsking ? undefined : faultOf(requests)).catch(() =>
      response.destroy(),
    );
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = server.address();
  return {
    url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`,
    get requests() {
      return requests;
    },
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

async function forward(
  target: string,
  request: IncomingMessage,
  response: ServerResponse,
  fault: Fault | undefined,
): Promise<void> {
  const method = request.method ?? 'GET';
  const bytes = await buffer(request);
  if (fault === 'lostRequest') return void response.destroy();
  if (fault === 'tooMany') return void response.writeHead(429, { 'Retry-After': '1' }).end('slow down');
  const { connection: _, ...headers } = request.headers;
  const passedOn = requestTo(target + (request.url ?? ''), { method, headers }).end(bytes);
  const [answer] = (await once(passedOn, 'response')) as [IncomingMessage];
  const body = await buffer(answer);
  if (fault === 'lostAnswer') return void response.destroy();
  if (fault === 'unavailable') return void response.writeHead(503).end('<h1>503</h1>');
  if (fault === 'garbage') return void response.writeHead(200).end('<title>Sign in to the hotel</title>');
  const { 'transfer-encoding': __, ...kept } = answer.headers;
  response.writeHead(answer.statusCode ?? 0, { ...kept, 'content-length': body.length });
  if (fault !== 'halfAnswer') return void response.end(body);
  response.write(body.subarray(0, body.length / 2), () => response.destroy());
}
