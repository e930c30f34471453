/** A listener with limits on time, and a stop that lets running requests finish. */
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  STATUS_CODES,
} from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { StartRefused } from './errors.ts';

export interface Listener {
  readonly port: number;
  /** No new connections; idle ones end at once, the others after their answer. */
  close(): Promise<void>;
}

export interface ListenAddress {
  readonly host: string;
  /** 0 takes any free one. */
  readonly port: number;
  /** The settings that they come from, for whoever has to change one. */
  readonly settings: { readonly host: string; readonly port: string };
}

/** The answer to bytes that are not a readable request. */
export interface Refusal {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}
export type RefusalOf = (isTooSlow: boolean) => Refusal;

const HOST_ERRORS = new Set(['ENOTFOUND', 'EADDRNOTAVAIL', 'EAI_AGAIN', 'EINVAL']);
const REQUEST_TIMEOUT_MS = 60_000;
/** Of a request that may take long. */
const LONG_REQUEST_TIMEOUT_MS = 60 * 60 * 1000;
const SLOW_CHECK_MS = 5_000;
const TOO_SLOW = 'ERR_HTTP_REQUEST_TIMEOUT';
const HEADERS_TIMEOUT_MS = 15_000;
const KEEP_ALIVE_MS = 65_000;
const DRAIN_MS = 6_000;
const IDLE_CHECK_MS = 50;

/**
 * @param mayTakeLong whether a request has an hour to arrive, as a large file on a player's line; others have a minute.
 * @throws StartRefused when the address is taken or not ours.
 */
export async function listen(
  handler: RequestListener,
  { host, port, settings }: ListenAddress,
  refusalOf: RefusalOf = bareRefusal,
  mayTakeLong?: (request: IncomingMessage) => boolean,
): Promise<Listener> {
  const server = createServer(
    {
      requestTimeout: mayTakeLong === undefined ? REQUEST_TIMEOUT_MS : LONG_REQUEST_TIMEOUT_MS,
      headersTimeout: HEADERS_TIMEOUT_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
    },
    handler,
  );
  server.on('clientError', (error, socket) => refuse(error, socket, refusalOf));
  if (mayTakeLong !== undefined) endSlowRequests(server, mayTakeLong, refusalOf);
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) => {
      const reason = cause.code === 'EADDRINUSE' ? 'is taken' : `cannot be used (${cause.code})`;
      const name = HOST_ERRORS.has(cause.code ?? '') ? settings.host : settings.port;
      reject(new StartRefused(`${name}: ${host}:${port} ${reason}`, { cause }));
    });
    server.listen(port, host, resolve);
  });
  return { port: portOf(server), close: () => drain(server) };
}

/** Takes the address and lets go of it: what is asked before anything starts. @throws StartRefused as `listen`. */
export async function checkAddress(address: ListenAddress): Promise<void> {
  const listener = await listen(() => {}, address);
  await listener.close();
}

/** Bytes that are not HTTP, and heads that are too large, never reach the application. */
function refuse(error: NodeJS.ErrnoException, socket: Duplex, refusalOf: RefusalOf): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
  const { status, headers, body } = refusalOf(error.code === TOO_SLOW);
  const lines = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'Connection: close',
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  socket.end(`${lines.join('\r\n')}\r\n\r\n${body}`);
}

/** Node has one limit for all requests of a server. Where some may take long, the limit of the others is kept here. */
function endSlowRequests(
  server: Server,
  mayTakeLong: (request: IncomingMessage) => boolean,
  refusalOf: RefusalOf,
): void {
  const latest = new Map<Socket, IncomingMessage>();
  const seenMs = new WeakMap<IncomingMessage, number>();
  server.on('connection', (socket) => socket.once('close', () => latest.delete(socket)));
  // All that is done for each request: most have arrived whole before anybody looks.
  server.prependListener('request', (request) => latest.set(request.socket, request));
  const check = setInterval(() => {
    const nowMs = performance.now();
    for (const [socket, request] of latest) {
      if (request.complete || mayTakeLong(request)) {
        latest.delete(socket);
        continue;
      }
      const sinceMs = seenMs.get(request) ?? nowMs;
      seenMs.set(request, sinceMs);
      if (nowMs - sinceMs < REQUEST_TIMEOUT_MS) continue;
      refuse(Object.assign(new Error('too slow'), { code: TOO_SLOW }), socket, refusalOf);
      socket.destroySoon();
    }
  }, SLOW_CHECK_MS);
  server.once('close', () => clearInterval(check));
}

function bareRefusal(isTooSlow: boolean): Refusal {
  return { status: isTooSlow ? 408 : 400, headers: {}, body: '' };
}

function portOf(server: Server): number {
  const address: AddressInfo | string | null = server.address();
  if (typeof address === 'object' && address !== null) return address.port;
  throw new Error('the listener has no port');
}

async function drain(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  // From now on an answer closes its connection: a client that keeps it alive would be served for ever.
  server.prependListener('request', (_, response) => response.setHeader('Connection', 'close'));
  const idle = setInterval(() => server.closeIdleConnections(), IDLE_CHECK_MS);
  const deadline = setTimeout(() => server.closeAllConnections(), DRAIN_MS);
  await closed;
  clearInterval(idle);
  clearTimeout(deadline);
}
