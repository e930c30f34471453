/** A listener with limits on time and on what one connection holds, and a stop that lets running requests finish. */
import { createServer, IncomingMessage, type RequestListener, type Server, ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { yieldToEventLoop } from '../waiting.ts';
import { LingeringClose } from './lingeringClose.ts';
import { bind, type ListenAddress } from './listenAddress.ts';
import { Pipelines } from './pipelining.ts';
import {
  COMMON_HEADERS,
  emptyRejection,
  errorWithCode,
  headersOf,
  isMalformed,
  type RejectionFor,
  reject,
  SMALL_CHUNKS_CODE,
  TOO_SLOW_CODE,
} from './rejections.ts';
import { UnsentResponses } from './unsentResponses.ts';

export interface Listener {
  readonly port: number;
  /** No new connections; idle ones end at once, the others after their answer. */
  close(): Promise<void>;
}

const REQUEST_TIMEOUT_MS = 60_000;
/** Of a request that may take long. */
const LONG_REQUEST_TIMEOUT_MS = 60 * 60 * 1000;
const SLOW_CHECK_INTERVAL_MS = 5_000;
const HEADERS_TIMEOUT_MS = 15_000;
const KEEP_ALIVE_MS = 65_000;
const DRAIN_MS = 6_000;
const IDLE_CHECK_INTERVAL_MS = 50;
const COMMON_HEADER_LIST = [...COMMON_HEADERS].flat();
const STALLED_TIMEOUT_MS = 60_000;
/** Of a body, and one more for each so many bytes. */
export const MAX_SMALL_CHUNKS = 4_096;
export const MEAN_CHUNK_BYTES = 256;

/** Decides about clients by their addresses. */
export interface AddressGuard {
  /** False if a new connection is closed at once. */
  admitsConnection(socket: Socket): boolean;
  /** Counts a connection without a readable request. */
  countConnection(socket: Socket): void;
}

/**
 * @param mayTakeLong whether a request has an hour to arrive, as a large file on a player's line; others have a minute.
 * @throws StartRefused as `bind`.
 */
export async function listen(
  handler: RequestListener,
  address: ListenAddress,
  rejectionFor: RejectionFor = emptyRejection,
  mayTakeLong?: (request: IncomingMessage) => boolean,
  guard?: AddressGuard,
): Promise<Listener> {
  const lingeringClose = new LingeringClose();
  const server = createServer({
    IncomingMessage: requestClass(
      (request) => pipelines.onRead(request),
      (socket) => onBroken(errorWithCode('too small chunks', SMALL_CHUNKS_CODE), socket),
    ),
    ServerResponse: responseClass(lingeringClose, new UnsentResponses()),
    requestTimeout: mayTakeLong === undefined ? REQUEST_TIMEOUT_MS : LONG_REQUEST_TIMEOUT_MS,
    headersTimeout: HEADERS_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // Looked at below, where the answer is a refusal as any other.
    requireHostHeader: false,
  });
  const pipelines = new Pipelines((request, response) => {
    if (!isMalformed(request)) return handler(request, response);
    guard?.countConnection(request.socket);
    const rejection = rejectionFor('malformed');
    response.writeHead(rejection.status, headersOf(rejection)).end(rejection.body);
  }, lingeringClose);
  const [serve] = server.listeners('connection');
  server.removeAllListeners('connection').on('connection', (socket) => {
    if (guard?.admitsConnection(socket) === false) return void socket.destroy();
    serve?.call(server, socket);
    pipelines.watch(socket);
    if (guard === undefined) return;
    socket.once('close', () => {
      if (!pipelines.hasRequest(socket)) guard.countConnection(socket);
    });
  });
  server.on('request', (request, response) => pipelines.begin(request, response));
  server.setTimeout(STALLED_TIMEOUT_MS, (socket) => {
    // Each part that its client takes begins the time of a socket anew. An answer that waits for what it has to tell has nothing there.
    if (socket.writableLength > 0) socket.destroy();
    else void endIfIdle(socket, pipelines);
  });
  server.on('checkContinue', (request, response) => {
    continueOnceRead(request, response);
    server.emit('request', request, response);
  });
  // What else may be expected is for the handler to say.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response));
  const onBroken = (error: NodeJS.ErrnoException, socket: Socket): void =>
    pipelines.onBroken(error, socket, () => {
      if (pipelines.hasRequest(socket)) guard?.countConnection(socket);
      reject(error, socket, rejectionFor, lingeringClose);
    });
  server.on('clientError', (error, socket) => onBroken(error, socket as Socket));
  if (mayTakeLong !== undefined) endSlowRequests(server, mayTakeLong, onBroken);
  await bind(server, address);
  return { port: portOf(server), close: () => drain(server) };
}

/**
 * Returns a class of requests that call `onRead` when a handler reads their body, and that reject a body in too many
 * small chunks.
 */
function requestClass(
  onRead: (request: IncomingMessage) => void,
  rejectChunks: (socket: Socket) => void,
): typeof IncomingMessage {
  return class Request extends IncomingMessage {
    #chunks = 0;
    #bytes = 0;
    #isRejected = false;

    override _read(size: number): void {
      super._read(size);
      onRead(this);
    }

    override push(chunk: Buffer | null, ...encoding: BufferEncoding[]): boolean {
      // Of what was read at once the rest is dropped. With `false` Node would read nothing more, and the client never its refusal.
      if (this.#isRejected) return true;
      this.#chunks += 1;
      this.#bytes += chunk?.length ?? Number.POSITIVE_INFINITY;
      this.#isRejected = this.#chunks > MAX_SMALL_CHUNKS + this.#bytes / MEAN_CHUNK_BYTES;
      if (!this.#isRejected) return super.push(chunk, ...encoding);
      rejectChunks(this.socket);
      return true;
    }
  };
}

/** They have the headers of every answer, and are counted until they are taken. Where one comes before the whole of its request, its connection ends behind it. */
function responseClass(
  lingeringClose: LingeringClose,
  unsentResponses: UnsentResponses,
): typeof ServerResponse {
  return class Answer<Request extends IncomingMessage = IncomingMessage> extends ServerResponse<Request> {
    override end(...args: unknown[]): this {
      Reflect.apply(super.end, this, args);
      unsentResponses.track(this);
      return this;
    }

    override writeHead(status: number, ...args: unknown[]): this {
      const { req: request } = this;
      if (!request.complete) {
        // Before node's own listener, which would read and drop the rest of the body, however long.
        this.prependListener('finish', () => {
          if (request.complete) return;
          request.socket.destroySoon = () => {};
          lingeringClose.begin(request.socket);
        });
      }
      // A list says nothing otherwise, and is written as it is, which costs the least.
      if (Array.isArray(args[0]))
        return Reflect.apply(super.writeHead, this, [status, [...args[0], ...COMMON_HEADER_LIST]]);
      for (const [name, value] of COMMON_HEADERS) if (!this.hasHeader(name)) this.setHeader(name, value);
      return Reflect.apply(super.writeHead, this, [status, ...args]);
    }
  };
}

/**
 * Ends a connection that has been idle for too long. A process that stood still, as on a machine that is moved, finds that
 * so before it has read the request that came meanwhile: that is read first, and answered.
 */
async function endIfIdle(socket: Socket, pipelines: Pipelines): Promise<void> {
  await pendingInputIsRead();
  if (!pipelines.isBusy(socket)) socket.destroy();
}

/** Resolves once the requests and connections that the kernel holds have begun: their connections are not idle. */
async function pendingInputIsRead(): Promise<void> {
  // The first may end the turn in which nothing was read yet.
  await yieldToEventLoop();
  await yieldToEventLoop();
}

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
  const firstSeenAtMs = new WeakMap<IncomingMessage, number>();
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
      const sinceMs = firstSeenAtMs.get(request) ?? nowMs;
      firstSeenAtMs.set(request, sinceMs);
      if (nowMs - sinceMs < REQUEST_TIMEOUT_MS) continue;
      onBroken(errorWithCode('too slow', TOO_SLOW_CODE), socket);
    }
  }, SLOW_CHECK_INTERVAL_MS);
  server.once('close', () => clearInterval(check));
}

function portOf(server: Server): number {
  const address: AddressInfo | string | null = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('the listener has no port');
  return address.port;
}

async function drain(server: Server): Promise<void> {
  // From now on an answer closes its connection: a client that keeps it alive would be served for ever.
  server.prependListener('request', (_, response) => response.setHeader('Connection', 'close'));
  await pendingInputIsRead();
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  const idle = setInterval(async () => {
    await pendingInputIsRead();
    server.closeIdleConnections();
  }, IDLE_CHECK_INTERVAL_MS);
  const deadline = setTimeout(() => server.closeAllConnections(), DRAIN_MS);
  await closed;
  clearInterval(idle);
  clearTimeout(deadline);
}
