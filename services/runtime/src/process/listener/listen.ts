/** A listener with limits on time and on what one connection holds, and a stop that lets running requests finish. */
import {
  createServer,
  IncomingMessage,
  type RequestListener,
  type Server,
  ServerResponse,
  STATUS_CODES,
} from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { nextTurn } from '../waiting.ts';
import { bind, type ListenAddress } from './listenAddress.ts';
import { UntakenAnswers } from './untakenAnswers.ts';

export interface Listener {
  readonly port: number;
  /** No new connections; idle ones end at once, the others after their answer. */
  close(): Promise<void>;
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
/** Requests that wait behind the one of their connection that is under way; with one more it is closed. */
const MAX_PIPELINED = 64;
/**
 * How much longer, and for how many bytes, a refused client may go on sending before its connection ends. Many send a body in
 * one piece before they look for an answer: twice the largest that is taken.
 */
const LINGER_MS = 5_000;
const LINGER_BYTES = 16 * 1024 * 1024;
/** Of all refused clients together, `LINGER_BYTES` of it at once: to read and drop it is work, too. */
const LINGER_BYTES_A_SECOND = 32 * 1024 * 1024;
/** Of every answer that does not say otherwise: it is of one client, and is what its type says. */
const COMMON_HEADERS = new Map([
  ['Cache-Control', 'no-store'],
  ['X-Content-Type-Options', 'nosniff'],
]);
const COMMON_LIST = [...COMMON_HEADERS].flat();
const STALLED_MS = 60_000;
/** Of a body, and one more for each so many bytes. */
export const MAX_SMALL_CHUNKS = 4_096;
export const MEAN_CHUNK_BYTES = 256;

/**
 * @param mayTakeLong whether a request has an hour to arrive, as a large file on a player's line; others have a minute.
 * @throws StartRefused as `bind`.
 */
export async function listen(
  handler: RequestListener,
  address: ListenAddress,
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
  await bind(server, address);
  return { port: portOf(server), close: () => drain(server) };
}

/** A chunk of a body takes some 200 bytes of memory and two microseconds, however small it is. */
function requestsOf(refuseChunks: (socket: Socket) => void): typeof IncomingMessage {
  return class Request extends IncomingMessage {
    #chunks = 0;
    #bytes = 0;
    #isRefused = false;

    override push(chunk: Buffer | null, ...encoding: BufferEncoding[]): boolean {
      // Of what was read at once the rest is dropped. With `false` Node would read nothing more, and the client never its refusal.
      if (this.#isRefused) return true;
      this.#chunks += 1;
      this.#bytes += chunk?.length ?? Number.POSITIVE_INFINITY;
      this.#isRefused = this.#chunks > MAX_SMALL_CHUNKS + this.#bytes / MEAN_CHUNK_BYTES;
      if (!this.#isRefused) return super.push(chunk, ...encoding);
      refuseChunks(this.socket);
      return true;
    }
  };
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
 * Node begins every request that a connection has brought, and its client may send thousands before it reads an answer.
 * The answers go out in the order of the requests anyway (RFC 9112, section 9.3.2).
 */
class RequestsUnderWay {
  readonly #handler: RequestListener;
  /** Behind the one of their connection that is under way. */
  readonly #waiting = new WeakMap<Socket, (() => void)[]>();

  constructor(handler: RequestListener) {
    this.#handler = handler;
  }

  has(socket: Socket): boolean {
    return this.#waiting.has(socket);
  }

  begin(
    request: IncomingMessage,
    response: ServerResponse<IncomingMessage> & { req: IncomingMessage },
  ): void {
    const { socket } = request;
    const run = (): void => {
      response.once('close', () => {
        const next = this.#waiting.get(socket)?.shift();
        // Behind the last answer of a connection nobody would learn what became of a request.
        if (next === undefined || !socket.writable) this.#waiting.delete(socket);
        else next();
      });
      this.#handler(request, response);
    };
    const others = this.#waiting.get(socket);
    if (others === undefined) {
      this.#waiting.set(socket, []);
      run();
    } else if (others.length < MAX_PIPELINED) others.push(run);
    else socket.destroy();
  }
}

/**
 * Ends a connection that has been idle for too long. A process that stood still, as on a machine that is moved, finds that
 * so before it has read the request that came meanwhile: that is read first, and answered.
 */
async function endIfIdle(socket: Socket, underWay: RequestsUnderWay): Promise<void> {
  await whatCameIsRead();
  if (!underWay.has(socket)) socket.destroy();
}

/** Resolves once the requests and connections that the kernel holds have begun: their connections are not idle. */
async function whatCameIsRead(): Promise<void> {
  // The first may end the turn in which nothing was read yet.
  await nextTurn();
  await nextTurn();
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

/**
 * Ends connections whose clients may still be sending. Closed with bytes unread one would be reset, and its client might lose
 * the answer (RFC 9112, section 9.6). What comes is not parsed any more.
 */
class Lingering {
  /** Until when what has come of all of them is paid for. */
  #paidMs = 0;

  begin(socket: Duplex): void {
    let bytes = 0;
    const timer = setTimeout(() => socket.destroy(), LINGER_MS);
    socket.once('close', () => clearTimeout(timer));
    socket.once('end', () => socket.destroy());
    socket.removeAllListeners('data');
    socket.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > LINGER_BYTES) return void socket.destroy();
      const waitMs = this.#take(chunk.length);
      if (waitMs === 0) return;
      socket.pause();
      setTimeout(() => socket.resume(), waitMs).unref();
    });
    socket.resume();
    socket.end();
  }

  /** @returns how long nothing more is read of it. */
  #take(bytes: number): number {
    const nowMs = performance.now();
    const perMs = LINGER_BYTES_A_SECOND / 1000;
    this.#paidMs = Math.max(this.#paidMs, nowMs - LINGER_BYTES / perMs) + bytes / perMs;
    return Math.max(0, this.#paidMs - nowMs);
  }
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
  // From now on an answer closes its connection: a client that keeps it alive would be served for ever.
  server.prependListener('request', (_, response) => response.setHeader('Connection', 'close'));
  await whatCameIsRead();
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  const idle = setInterval(async () => {
    await whatCameIsRead();
    server.closeIdleConnections();
  }, IDLE_CHECK_MS);
  const deadline = setTimeout(() => server.closeAllConnections(), DRAIN_MS);
  await closed;
  clearInterval(idle);
  clearTimeout(deadline);
}
