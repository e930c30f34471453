/** A listener with limits on time, and a stop that lets running requests finish. */
import { randomUUID } from 'node:crypto';
import { createServer, type RequestListener, type Server, STATUS_CODES } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { type ProblemCode, problemOf } from '@questlog/schemas/http/problem';
import { StartRefused } from './errors.ts';

export interface Listener {
  readonly port: number;
  /** No new connections; idle ones end at once, the others after their answer. */
  close(): Promise<void>;
}

const HOST_ERRORS = new Set(['ENOTFOUND', 'EADDRNOTAVAIL', 'EAI_AGAIN', 'EINVAL']);
const REQUEST_TIMEOUT_MS = 60_000;
const HEADERS_TIMEOUT_MS = 15_000;
const KEEP_ALIVE_MS = 65_000;
const DRAIN_MS = 6_000;
const IDLE_CHECK_MS = 50;

/** @throws StartRefused when the address is taken or not ours. */
export async function listen(
  handler: RequestListener,
  host: string,
  port: number,
  setting: string,
): Promise<Listener> {
  const server = createServer(
    {
      requestTimeout: REQUEST_TIMEOUT_MS,
      headersTimeout: HEADERS_TIMEOUT_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
    },
    handler,
  );
  server.on('clientError', refuseMalformed);
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) => {
      const reason = cause.code === 'EADDRINUSE' ? 'is taken' : `cannot be used (${cause.code})`;
      const name = HOST_ERRORS.has(cause.code ?? '') ? 'QUESTLOG_HOST' : setting;
      reject(new StartRefused(`${name}: ${host}:${port} ${reason}`, { cause }));
    });
    server.listen(port, host, resolve);
  });
  return { port: portOf(server), close: () => drain(server) };
}

/** What is not HTTP, or too large to be a request's head, never reaches the application. */
function refuseMalformed(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
  const code: ProblemCode = error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 'request_timeout' : 'invalid_request';
  const problem = problemOf(
    code,
    'the request is not valid HTTP, too slow, or its head is too large',
    randomUUID(),
  );
  const body = JSON.stringify(problem);
  const head = `HTTP/1.1 ${problem['status']} ${STATUS_CODES[Number(problem['status'])]}\r\nConnection: close\r\n`;
  socket.end(
    `${head}Content-Type: application/problem+json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}

function portOf(server: Server): number {
  const address: AddressInfo | string | null = server.address();
  if (typeof address === 'object' && address !== null) return address.port;
  throw new Error('the listener has no port');
}

async function drain(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  // What is answered from now on was the connection's last: a client that keeps it alive would be served for ever.
  server.prependListener('request', (_, response) => response.setHeader('Connection', 'close'));
  const idle = setInterval(() => server.closeIdleConnections(), IDLE_CHECK_MS);
  const deadline = setTimeout(() => server.closeAllConnections(), DRAIN_MS);
  await closed;
  clearInterval(idle);
  clearTimeout(deadline);
}
