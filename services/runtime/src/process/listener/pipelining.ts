/** Answers the requests of a connection one after another, and stops reading a connection while too many of them wait. */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { LingeringClose } from './lingeringClose.ts';
import { TOO_SLOW_CODE } from './rejections.ts';

/** Maximum requests that wait for the running request of their connection. At this number, parsing stops. */
export const MAX_WAITING = 16;
/**
 * Maximum waiting requests of all connections that begin in one turn of the event loop, so that other clients are
 * delayed by only a few requests.
 */
const MAX_STARTS_PER_TURN = 4;
/** Maximum bytes of all connections that were read and not parsed. A connection that would exceed the limit is closed. */
const MAX_UNPARSED_BYTES = 64 * 1024 * 1024;

/** llhttp's error code. If `on_headers_complete` returns it, the parser stops after that head. */
const PAUSED = 21;
const PAUSED_CODE = 'HPE_PAUSED';

type Response = ServerResponse<IncomingMessage> & { req: IncomingMessage };

/** A request with its response, or a function that rejects bytes that are not a request. */
type Waiting = Response | (() => void);

interface Connection {
  readonly socket: Socket;
  /** Undefined if no request is running. */
  running: Response | undefined;
  readonly waiting: Waiting[];
  /** True while a request is under way or waits. */
  isBusy: boolean;
  /** Bytes that were read after the last request that was parsed. */
  unparsed: Buffer | undefined;
  /** True while nothing is read. */
  isStopped: boolean;
  isPipelined: boolean;
  hasRequest: boolean;
}

/** The parts of node's parser that are used here. */
interface Parser {
  /** Begins a request once its head is complete. The result goes to llhttp: 0, or 2 for an upgrade. */
  onIncoming(request: IncomingMessage, shouldKeepAlive: boolean): number;
  resume(): void;
}

/** https://nodejs.org/api/http.html#event-clienterror */
type ParserError = NodeJS.ErrnoException & { readonly bytesParsed?: number; readonly rawPacket?: Buffer };

/**
 * Node parses a whole chunk of up to 64 KiB at once and starts every request in it, up to 1,800 small ones. This class
 * stops the parser inside a chunk and parses the rest after the waiting requests have started. Responses keep the order
 * of requests (RFC 9112, section 9.3.2).
 */
export class Pipelines {
  readonly #handler: RequestListener;
  readonly #lingeringClose: LingeringClose;
  readonly #connections = new WeakMap<Socket, Connection>();
  /** Connections whose next request may begin. */
  #due: Connection[] = [];
  #unparsedBytes = 0;

  constructor(handler: RequestListener, lingeringClose: LingeringClose) {
    this.#handler = handler;
    this.#lingeringClose = lingeringClose;
  }

  /** Must be called for each new connection, after Node has attached a parser. */
  watch(socket: Socket): void {
    const connection: Connection = {
      ...{ socket, running: undefined, waiting: [], isBusy: false },
      ...{ unparsed: undefined, isStopped: false, isPipelined: false, hasRequest: false },
    };
    this.#connections.set(socket, connection);
    const parser = parserOf(socket);
    if (parser === undefined) return;
    const { onIncoming } = parser;
    parser.onIncoming = (request, shouldKeepAlive) => {
      const result = onIncoming(request, shouldKeepAlive);
      const stops = connection.waiting.length >= MAX_WAITING || isChunked(request);
      return result === 0 && stops ? PAUSED : result;
    };
  }

  hasRequest(socket: Socket): boolean {
    return this.#connections.get(socket)?.hasRequest === true;
  }

  /** Continues to parse the body of a running request. Must be called whenever the handler of the request reads the body. */
  onRead(request: IncomingMessage): void {
    const connection = this.#connections.get(request.socket);
    if (connection?.unparsed === undefined) return;
    setImmediate(() => {
      const { running, unparsed } = connection;
      // After its answer, the rest of a body is dropped and not parsed.
      if (running?.req !== request || request.complete || running.writableEnded) return;
      if (unparsed !== undefined) this.#parse(connection);
    });
  }

  /** True if a request of the connection is under way or waits. */
  isBusy(socket: Socket): boolean {
    return this.#connections.get(socket)?.isBusy === true;
  }

  /** Runs the handler, at once or after the earlier requests of the connection. */
  begin(request: IncomingMessage, response: Response): void {
    const connection = this.#connections.get(request.socket);
    if (connection === undefined) return void this.#handler(request, response);
    connection.hasRequest = true;
    if (!connection.isBusy) return void this.#run(connection, response);
    this.#expectMore(connection);
    // Bytes after a rejection are not parsed as requests.
    if (typeof connection.waiting.at(-1) !== 'function') connection.waiting.push(response);
  }

  /**
   * Handles an error of the parser or of a request's time limit.
   * @param reject rejects the bytes that cannot be read. It is called after the earlier requests of the connection were
   * answered.
   */
  onBroken(error: ParserError, socket: Socket, reject: () => void): void {
    const connection = this.#connections.get(socket);
    if (error.code === PAUSED_CODE && connection !== undefined) return void this.#hold(connection, error);
    if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
    if (connection === undefined || !connection.isBusy) return void reject();
    const { running, waiting } = connection;
    const last = waiting.at(-1);
    // The parser was stopped inside of a request that waits: the request is not slow.
    if (typeof last === 'function' || connection.unparsed !== undefined) return;
    if (last === undefined && running !== undefined && !running.req.complete)
      return void rejectRunning(running, error, socket, reject);
    if (last !== undefined && !last.req.complete) waiting.pop();
    this.#expectMore(connection);
    this.#stop(connection);
    waiting.push(reject);
  }

  #run(connection: Connection, response: Response): void {
    connection.isBusy = true;
    connection.running = response;
    response.once('close', () => {
      connection.running = undefined;
      if (connection.waiting.length === 0 && connection.unparsed === undefined) connection.isBusy = false;
      else this.#takeTurn(connection);
    });
    this.#handler(response.req, response);
  }

  #takeTurn(connection: Connection): void {
    if (this.#due.push(connection) === 1) setImmediate(this.#beginDue);
  }

  readonly #beginDue = (): void => {
    const now = this.#due.splice(0, MAX_STARTS_PER_TURN);
    if (this.#due.length > 0) setImmediate(this.#beginDue);
    for (const connection of now) this.#beginNext(connection);
  };

  #beginNext(connection: Connection): void {
    const { socket, waiting } = connection;
    // Drops requests after the last answer of a connection, because they could not be answered.
    if (!socket.writable) {
      waiting.length = 0;
      this.#takeUnparsed(connection);
      return;
    }
    // Parses before the last waiting request runs, because the end of this request may not have been parsed. Chunks are
    // parsed when the handler reads the body.
    const [last] = waiting;
    const isLast = waiting.length <= 1 && !(typeof last === 'object' && isChunked(last.req));
    if (isLast && connection.unparsed !== undefined) {
      if (socket.writableNeedDrain) return void socket.once('drain', () => this.#takeTurn(connection));
      this.#parse(connection);
    }
    const next = waiting.shift();
    if (next === undefined) connection.isBusy = false;
    else if (typeof next === 'function') next();
    else this.#run(connection, next);
  }

  /** Keeps what the parser has not read of a chunk, and stops reading. */
  #hold(connection: Connection, { rawPacket = Buffer.alloc(0), bytesParsed = 0 }: ParserError): void {
    const { socket, unparsed } = connection;
    const more = unparsed === undefined ? rawPacket.subarray(bytesParsed) : rawPacket;
    connection.unparsed = unparsed === undefined ? more : Buffer.concat([unparsed, more]);
    this.#unparsedBytes += more.length;
    this.#expectMore(connection);
    this.#stop(connection);
    if (this.#unparsedBytes > MAX_UNPARSED_BYTES) socket.destroy();
  }

  /** Parses what was read, up to the next limit. */
  #parse(connection: Connection): void {
    const { socket } = connection;
    const bytes = this.#takeUnparsed(connection);
    connection.isStopped = false;
    parserOf(socket)?.resume();
    // Resumes before the bytes are parsed, because the parser or an unread body may stop the socket again.
    socket.resume();
    // Node's own listener parses them, as if they were read now.
    if (bytes !== undefined) socket.emit('data', bytes);
  }

  #takeUnparsed(connection: Connection): Buffer | undefined {
    const { unparsed } = connection;
    connection.unparsed = undefined;
    this.#unparsedBytes -= unparsed?.length ?? 0;
    return unparsed;
  }

  /** Prepares a connection on which bytes may be unread when its last answer is sent. */
  #expectMore(connection: Connection): void {
    if (connection.isPipelined) return;
    connection.isPipelined = true;
    const { socket } = connection;
    socket.once('close', () => this.#takeUnparsed(connection));
    // Node starts to read whenever 'resume' is emitted, also if the socket was paused after `resume()`.
    socket.on('resume', () => {
      // After the last answer, the remaining bytes are read and dropped.
      if (socket.writableEnded) return;
      if (connection.isStopped) socket.pause();
      if (socket.isPaused()) socket.emit('pause');
    });
    socket.destroySoon = () => this.#lingeringClose.begin(socket);
  }

  #stop(connection: Connection): void {
    connection.isStopped = true;
    connection.socket.pause();
  }
}

/**
 * Rejects a request whose body cannot be read, unless its response has begun. A second response would be taken for the
 * response to another request.
 */
function rejectRunning(
  response: Response,
  error: NodeJS.ErrnoException,
  socket: Socket,
  reject: () => void,
): void {
  if (!response.headersSent) reject();
  // After a complete response, the connection lingers once the response is sent. If the client does not read it, the
  // time limit ends the connection here.
  else if (error.code === TOO_SLOW_CODE || !response.writableEnded) socket.destroy();
}

/**
 * True if the body is chunked. Each chunk costs about 200 bytes and two microseconds. If the response needs no body,
 * such as without a valid token, the chunks are not parsed.
 */
function isChunked({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined;
}

function parserOf(socket: Socket): Parser | undefined {
  return (socket as Socket & { parser?: Parser | null }).parser ?? undefined;
}
