/** Opens an HTTP listener with time limits and limits per connection. Running requests finish before the listener closes. */
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
  /** Rejects new connections, closes idle connections immediately, and closes other connections after their response. */
  close(): Promise<void>;
}

const REQUEST_TIMEOUT_MS = 60_000;
const LONG_REQUEST_TIMEOUT_MS = 60 * 60 * 1000;
const SLOW_CHECK_INTERVAL_MS = 5_000;
const HEADERS_TIMEOUT_MS = 15_000;
const KEEP_ALIVE_MS = 65_000;
const DRAIN_MS = 6_000;
const IDLE_CHECK_INTERVAL_MS = 50;
const COMMON_HEADER_LIST = [...COMMON_HEADERS].flat();
const STALLED_TIMEOUT_MS = 60_000;
/** A request body can have `MAX_SMALL_CHUNKS` chunks, plus one chunk for each `MEAN_CHUNK_BYTES` bytes of the body. */
export const MAX_SMALL_CHUNKS = 4_096;
export const MEAN_CHUNK_BYTES = 256;

export interface AddressGuard {
  /** Returns true if a new connection can stay open. If the result is false, the listener closes the connection immediately. */
  admitsConnection(socket: Socket): boolean;
  /** Counts a connection that sent no readable request. */
  countConnection(socket: Socket): void;
}

/**
 * Opens a listener on the address. A request for which `mayTakeLong` returns true has a longer timeout.
 * @throws StartRefused if the address cannot be used.
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
    // Turns off Node's own check of the `Host` header, because `isMalformed` checks the header and sends Questlog's response.
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
    // Closes a connection whose client reads nothing. The timeout restarts whenever the client reads a part of the response.
    if (socket.writableLength > 0) socket.destroy();
    else void endIfIdle(socket, pipelines);
  });
  server.on('checkContinue', (request, response) => {
    continueOnceRead(request, response);
    server.emit('request', request, response);
  });
  // Requests with unknown values of the `Expect` header are handled like other requests.
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
      // Returns true even after a rejection. Otherwise, Node would stop reading, and the client would not get the rejection.
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

/** Returns a response class that adds the common headers. Closes the connection after a response to an incomplete request. */
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
        // Must run before Node's own `finish` listener, which reads the remaining body without a limit.
        this.prependListener('finish', () => {
          if (request.complete) return;
          request.socket.destroySoon = () => {};
          lingeringClose.begin(request.socket);
        });
      }
      // Passes a header list to Node unchanged, because this is the fastest way to write headers.
      if (Array.isArray(args[0]))
        return Reflect.apply(super.writeHead, this, [status, [...args[0], ...COMMON_HEADER_LIST]]);
      for (const [name, value] of COMMON_HEADERS) if (!this.hasHeader(name)) this.setHeader(name, value);
      return Reflect.apply(super.writeHead, this, [status, ...args]);
    }
  };
}

/** Closes an idle connection, unless requests have arrived on the connection while the process was suspended. */
async function endIfIdle(socket: Socket, pipelines: Pipelines): Promise<void> {
  await pendingInputIsRead();
  if (!pipelines.isBusy(socket)) socket.destroy();
}

async function pendingInputIsRead(): Promise<void> {
  // Waits for two iterations of the event loop, because the current iteration can end before Node reads the sockets.
  await yieldToEventLoop();
  await yieldToEventLoop();
}

/** Sends `100 Continue` when the handler starts to read the body, because the handler has then accepted the headers. */
function continueOnceRead(request: IncomingMessage, response: ServerResponse): void {
  const onListener = (event: string | symbol): void => {
    if (event !== 'data' && event !== 'readable') return;
    request.off('newListener', onListener);
    response.writeContinue();
  };
  request.on('newListener', onListener);
}

/** Node supports only one request timeout per listener. This function adds a shorter timeout for most requests. */
function endSlowRequests(
  server: Server,
  mayTakeLong: (request: IncomingMessage) => boolean,
  onBroken: (error: NodeJS.ErrnoException, socket: Socket) => void,
): void {
  const latest = new Map<Socket, IncomingMessage>();
  const firstSeenAtMs = new WeakMap<IncomingMessage, number>();
  server.on('connection', (socket) => socket.once('close', () => latest.delete(socket)));
  // Stores only the latest request of each connection, so that the timeout check costs little time per request.
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
  // Closes every connection after its next response, because a busy connection could otherwise delay the stop forever.
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
