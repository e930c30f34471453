/** A listener with limits on time and on what one connection holds, and a stop that lets running requests finish. */
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  ServerResponse,
  STATUS_CODES,
} from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { StartRefused } from '../errors.ts';
import { nextTurn } from '../waiting.ts';
import { Lingering, RequestsUnderWay, requestsOf } from './connectionBounds.ts';
import { UntakenAnswers } from './untakenAnswers.ts';

export interface Listener {
  readonly port: number;
  /** No new connections; idle ones end at once, the others after their answer. */
  close(): Promise<void>;
}

export interface ListenAddress {
  readonly host: string;
  /** 0 takes any free one. */
  readonly port: number;
  /** Among workers (node:cluster) it is of this one alone, and no connection comes by way of their parent. */
  readonly exclusive?: boolean;
  /** The settings that they come from, for whoever has to change one. */
  readonly settings: { readonly host: string; readonly port: string };
}

/** The answer to bytes that are not a readable request. */
export interface Refusal {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}
/** It is no HTTP or its head is too large, it took too long to arrive, or its body came in too many small chunks. */
export type Broken = 'malformed' | 'tooSlow' | 'smallChunks';
export type RefusalOf = (why: Broken) => Refusal;

const HOST_ERRORS = new Set(['ENOTFOUND', 'EADDRNOTAVAIL', 'EAI_AGAIN', 'EINVAL']);
const REQUEST_TIMEOUT_MS = 60_000;
/** Of a request that may take long. */
const LONG_REQUEST_TIMEOUT_MS = 60 * 60 * 1000;
const SLOW_CHECK_MS = 5_000;
/** Of errors, the first as Node has it. */
const TOO_SLOW = 'ERR_HTTP_REQUEST_TIMEOUT';
const SMALL_CHUNKS = 'SMALL_CHUNKS';
const HEADERS_TIMEOUT_MS = 15_000;
const KEEP_ALIVE_MS = 65_000;
const DRAIN_MS = 6_000;
const IDLE_CHECK_MS = 50;
/** Of every answer that does not say otherwise: it is of one client, and is what its type says. */
const COMMON_HEADERS = new Map([
  ['Cache-Control', 'no-store'],
  ['X-Content-Type-Options', 'nosniff'],
]);
const COMMON_LIST = [...COMMON_HEADERS].flat();
/** Node notices a client that takes nothing between once and twice as late. */
const STALLED_MS = 60_000;

/**
 * @param mayTakeLong whether a request has an hour to arrive, as a large file on a player's line; others have a minute.
 * @throws StartRefused when the address is taken or not ours.
 */
export async function listen(
  handler: RequestListener,
  { host, port, exclusive = false, settings }: ListenAddress,
  refusalOf: RefusalOf = bareRefusal,
  mayTakeLong?: (request: IncomingMessage) => boolean,
): Promise<Listener> {
  const lingering = new Lingering();
  const server = createServer({
    IncomingMessage: requestsOf((socket) => onBroken(coded('too small chunks', SMALL_CHUNKS), socket)),
    ServerResponse: answersOf(lingering, new UntakenAnswers()),
    requestTimeout: mayTakeLong === undefined ? REQUEST_TIMEOUT_MS : LONG_REQUEST_TIMEOUT_MS,
    headersTimeout: HEADERS_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // Looked at below, where the answer is a refusal as any other.
    requireHostHeader: false,
  });
  const answers = new WeakMap<Duplex, ServerResponse>();
  const underWay = new RequestsUnderWay((request, response) => {
    answers.set(request.socket, response);
    if (!isMalformed(request)) return handler(request, response);
    const refusal = refusalOf('malformed');
    response.writeHead(refusal.status, headersOf(refusal)).end(refusal.body);
  });
  server.on('request', (request, response) => underWay.begin(request, response));
  server.setTimeout(STALLED_MS, (socket) => {
    // Each part that its client takes begins the time of a socket anew. An answer that waits for what it has to tell has nothing there.
    if (socket.writableLength > 0) socket.destroy();
    else void endIfIdle(socket, underWay);
  });
  server.on('checkContinue', (request, response) => {
    continueOnceRead(request, response);
    server.emit('request', request, response);
  });
  // What else may be expected is for the handler to say.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response));
  const onBroken = (error: NodeJS.ErrnoException, socket: Duplex): void => {
    const answer = answers.get(socket);
    const isAnswered = answer === undefined || (answer.req.complete && answer.writableEnded);
    if (isAnswered || !answer.headersSent) refuse(error, socket, refusalOf, lingering);
    // Its answer has begun: a second one would be taken for another request's. Behind one that has ended the connection
    // lingers once it is sent, which is never where the client does not read.
    else if (error.code === TOO_SLOW || !answer.writableEnded) socket.destroy();
  };
  server.on('clientError', onBroken);
  if (mayTakeLong !== undefined) endSlowRequests(server, mayTakeLong, onBroken);
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) => {
      const reason = cause.code === 'EADDRINUSE' ? 'is taken' : `cannot be used (${cause.code})`;
      const name = HOST_ERRORS.has(cause.code ?? '') ? settings.host : settings.port;
      reject(new StartRefused(`${name}: ${host}:${port} ${reason}`, { cause }));
    });
    server.listen({ port, host, exclusive }, resolve);
  });
  return { port: portOf(server), close: () => drain(server) };
}

/** They have the headers of every answer, and are counted until they are taken. Where one comes before the whole of its request, its connection ends behind it. */
function answersOf(lingering: Lingering, untaken: UntakenAnswers): typeof ServerResponse {
  return class Answer<Request extends IncomingMessage = IncomingMessage> extends ServerResponse<Request> {
    override end(...told: unknown[]): this {
      Reflect.apply(super.end, this, told);
      untaken.note(this);
      return this;
    }

    override writeHead(status: number, ...told: unknown[]): this {
      const { req: request } = this;
      if (!request.complete) {
        // Before node's own listener, which would read and drop the rest of the body, however long.
        this.prependListener('finish', () => {
          if (request.complete) return;
          request.socket.destroySoon = () => {};
          lingering.begin(request.socket);
        });
      }
      // A list says nothing otherwise, and is written as it is, which costs the least.
      if (Array.isArray(told[0]))
        return Reflect.apply(super.writeHead, this, [status, [...told[0], ...COMMON_LIST]]);
      for (const [name, value] of COMMON_HEADERS) if (!this.hasHeader(name)) this.setHeader(name, value);
      return Reflect.apply(super.writeHead, this, [status, ...told]);
    }
  };
}

/** Takes the address and lets go of it: what is asked before anything starts. @throws StartRefused as `listen`. */
export async function checkAddress(address: ListenAddress): Promise<void> {
  await (await listen(() => {}, address)).close();
}

/** Bytes that are not HTTP, and heads that are too large, never reach the application. */
function refuse(
  error: NodeJS.ErrnoException,
  socket: Duplex,
  refusalOf: RefusalOf,
  lingering: Lingering,
): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
  const refusal = refusalOf(BROKEN_BY[error.code ?? ''] ?? 'malformed');
  const lines = [
    `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}`,
    ...Object.entries(headersOf(refusal)).map(([name, value]) => `${name}: ${value}`),
  ];
  socket.write(`${lines.join('\r\n')}\r\n\r\n${refusal.body}`);
  lingering.begin(socket);
}

const BROKEN_BY: Readonly<Record<string, Broken>> = { [TOO_SLOW]: 'tooSlow', [SMALL_CHUNKS]: 'smallChunks' };

function coded(message: string, code: string): NodeJS.ErrnoException {
  return Object.assign(new Error(message), { code });
}

function headersOf({ headers, body }: Refusal): Record<string, string> {
  return {
    Connection: 'close',
    ...Object.fromEntries(COMMON_HEADERS),
    ...headers,
    'Content-Length': String(Buffer.byteLength(body)),
  };
}

/**
 * Ends a connection that has been idle for too long. A process that stood still, as on a machine that is moved, finds that
 * so before it has read the request that came meanwhile: that is read first, and answered.
 */
async function endIfIdle(socket: Socket, underWay: RequestsUnderWay): Promise<void> {
  // The first may end the turn in which nothing was read yet.
  await nextTurn();
  await nextTurn();
  if (!underWay.has(socket)) socket.destroy();
}

/** What node's parser lets pass, and what two parsers on the way may read in two ways (RFC 9112, sections 2.3, 3.2 and 6). */
function isMalformed({ url = '', httpVersion, headers, rawHeaders }: IncomingMessage): boolean {
  const isOld = httpVersion === '1.0';
  const coding = headers['transfer-encoding'];
  const hosts = rawHeaders.filter((name, i) => i % 2 === 0 && name.toLowerCase() === 'host').length;
  return (
    !isTarget(url) ||
    (httpVersion !== '1.1' && !isOld) ||
    (coding !== undefined && (isOld || coding.toLowerCase() !== 'chunked')) ||
    (isOld ? hosts > 1 : hosts !== 1)
  );
}

/** A path, `*`, or the whole address of a host; never with a user or a fragment (RFC 9110, section 4.2; RFC 9112, section 3.2). */
function isTarget(url: string): boolean {
  if (url.startsWith('/')) return !url.includes('#');
  return url === '*' || (ADDRESS.test(url) && URL.canParse(url));
}

const ADDRESS = /^https?:\/\/[\w.:[\]-]+(?:[/?][^#]*)?$/i;

/** The client is told to send its body when somebody begins to read it: once its head was found good. */
function continueOnceRead(request: IncomingMessage, response: ServerResponse): void {
  const onListener = (event: string | symbol): void => {
    if (event !== 'data' && event !== 'readable') return;
    request.off('newListener', onListener);
    response.writeContinue();
  };
  request.on('newListener', onListener);
}

/** Node has one limit for all requests of a server. Where some may take long, the limit of the others is kept here. */
function endSlowRequests(
  server: Server,
  mayTakeLong: (request: IncomingMessage) => boolean,
  onBroken: (error: NodeJS.ErrnoException, socket: Socket) => void,
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
      onBroken(coded('too slow', TOO_SLOW), socket);
    }
  }, SLOW_CHECK_MS);
  server.once('close', () => clearInterval(check));
}

function bareRefusal(why: Broken): Refusal {
  return { status: why === 'tooSlow' ? 408 : 400, headers: {}, body: '' };
}

function portOf(server: Server): number {
  const address: AddressInfo | string | null = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('the listener has no port');
  return address.port;
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
