/** A proxy between a game and Questlog. It drops connections, truncates answers, and sends its own answers. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, request as requestTo, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';

export const FAULTS = {
  lostRequest: 'the connection drops before Questlog receives the request',
  lostAnswer: 'the connection drops after Questlog has answered',
  halfAnswer: 'the client receives half of the answer',
  garbage: 'the client receives a sign-in page instead of the answer',
  unavailable: 'the client receives a 503 after Questlog has answered',
  tooMany: 'the client receives a 429 and Questlog does not receive the request',
} as const;
export type Fault = keyof typeof FAULTS;

export interface BadNetwork {
  readonly url: string;
  /** Number of requests received so far. Preflights are not counted. */
  readonly requests: number;
  close(): void;
}

/**
 * @param faultOf returns the fault for the number of a request, or undefined to forward the request unchanged. The first number
 * is 1.
 */
export async function badNetwork(
  target: string,
  faultOf: (request: number) => Fault | undefined,
): Promise<BadNetwork> {
  let requests = 0;
  const server = createServer((request, response) => {
    // Faults apply only to requests of the game. Preflights of the browser are forwarded unchanged.
    const isPreflight = request.method === 'OPTIONS';
    if (!isPreflight) requests += 1;
    forward(target, request, response, isPreflight ? undefined : faultOf(requests)).catch(() =>
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
  const forwarded = requestTo(target + (request.url ?? ''), { method, headers }).end(bytes);
  const [answer] = (await once(forwarded, 'response')) as [IncomingMessage];
  const body = await buffer(answer);
  if (fault === 'lostAnswer') return void response.destroy();
  if (fault === 'unavailable') return void response.writeHead(503).end('<h1>503</h1>');
  if (fault === 'garbage') return void response.writeHead(200).end('<title>Sign in to the hotel</title>');
  const { 'transfer-encoding': __, ...headersKept } = answer.headers;
  response.writeHead(answer.statusCode ?? 0, { ...headersKept, 'content-length': body.length });
  if (fault !== 'halfAnswer') return void response.end(body);
  response.write(body.subarray(0, body.length / 2), () => response.destroy());
}
