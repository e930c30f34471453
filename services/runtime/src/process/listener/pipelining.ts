/** Answers the requests of a connection one after another. Stops reading the connection while too many requests wait. */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { LingeringClose } from './lingeringClose.ts';
import { TOO_SLOW_CODE } from './rejections.ts';

/** Maximum number of waiting requests of a connection. The parser stops when this number is reached. */
export const MAX_WAITING = 16;
/** Maximum number of waiting requests that start in one turn of the event loop. The limit keeps other clients responsive. */
const MAX_STARTS_PER_TURN = 4;
/** Maximum number of unparsed bytes of all connections together. The connection that exceeds this limit is closed. */
const MAX_UNPARSED_BYTES = 64 * 1024 * 1024;

/** Error code of llhttp. The parser pauses after the headers of a request if `on_headers_complete` returns this code. */
const PAUSED = 21;
const PAUSED_CODE = 'HPE_PAUSED';

type Response = ServerResponse<IncomingMessage> & { req: IncomingMessage };

type Waiting = Response | (() => void);

interface Connection {
  readonly socket: Socket;
  running: Response | undefined;
  readonly waiting: Waiting[];
  isBusy: boolean;
  unparsed: Buffer | undefined;
  isStopped: boolean;
  isPipelined: boolean;
  hasRequest: boolean;
}

interface Parser {
  /** Node's parser calls this function with the headers of a request. The result is 2 for an upgrade, otherwise 0. */
  onIncoming(request: IncomingMessage, shouldKeepAlive: boolean): number;
  resume(): void;
}

/** Error of Node's event `clientError`: https://nodejs.org/api/http.html#event-clienterror */
type ParserError = NodeJS.ErrnoException & { readonly bytesParsed?: number; readonly rawPacket?: Buffer };

/**
 * Limits the number of requests that start in one turn of the event loop. Node would start all requests of a chunk in one turn,
 * and a chunk of 64 KiB can contain 1,800 small requests. Therefore, this class pauses the parser in the middle of a chunk.
 * Responses keep the order of the requests (RFC 9112, section 9.3.2).
 */
export class Pipelines {
  readonly #handler: RequestListener;
  readonly #lingeringClose: LingeringClose;
  readonly #connections = new WeakMap<Socket, Connection>();
  #due: Connection[] = [];
  #unparsedBytes = 0;

  constructor(handler: RequestListener, lingeringClose: LingeringClose) {
    this.#handler = handler;
    this.#lingeringClose = lingeringClose;
  }

  /** Prepares a new connection. Must be called after Node has attached a parser to the socket. */
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

  /** Continues to parse the body of a running request. Must be called when the handler of the request reads the body. */
  onRead(request: IncomingMessage): void {
    const connection = this.#connections.get(request.socket);
    if (connection?.unparsed === undefined) return;
    setImmediate(() => {
      const { running, unparsed } = connection;
      // After the response has ended, the rest of the body is dropped without parsing.
      if (running?.req !== request || request.complete || running.writableEnded) return;
      if (unparsed !== undefined) this.#parse(connection);
    });
  }

  isBusy(socket: Socket): boolean {
    return this.#connections.get(socket)?.isBusy === true;
  }

  /** Runs the handler for a request, after all earlier requests of the connection are finished. */
  begin(request: IncomingMessage, response: Response): void {
    const connection = this.#connections.get(request.socket);
    if (connection === undefined) return void this.#handler(request, response);
    connection.hasRequest = true;
    if (!connection.isBusy) return void this.#run(connection, response);
    this.#expectMore(connection);
    // Drops requests that follow a rejection on the same connection.
    if (typeof connection.waiting.at(-1) !== 'function') connection.waiting.push(response);
  }

  /**
   * Handles a parser error or the timeout of a slow request. Calls `reject` after the connection's earlier requests are
   * answered.
   */
  onBroken(error: ParserError, socket: Socket, reject: () => void): void {
    const connection = this.#connections.get(socket);
    if (error.code === PAUSED_CODE && connection !== undefined) return void this.#hold(connection, error);
    if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
    if (connection === undefined || !connection.isBusy) return void reject();
    const { running, waiting } = connection;
    const last = waiting.at(-1);
    // Unparsed bytes exist only if this class has paused the parser. The client is then not responsible for the timeout.
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
    // Drops the waiting requests if the socket is closed for writing, because no response can be sent.
    if (!socket.writable) {
      waiting.length = 0;
      this.#takeUnparsed(connection);
      return;
    }
    // Continues parsing, because the unparsed bytes can contain the rest of the last waiting request.
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

  #hold(connection: Connection, { rawPacket = Buffer.alloc(0), bytesParsed = 0 }: ParserError): void {
    const { socket, unparsed } = connection;
    const more = unparsed === undefined ? rawPacket.subarray(bytesParsed) : rawPacket;
    connection.unparsed = unparsed === undefined ? more : Buffer.concat([unparsed, more]);
    this.#unparsedBytes += more.length;
    this.#expectMore(connection);
    this.#stop(connection);
    if (this.#unparsedBytes > MAX_UNPARSED_BYTES) socket.destroy();
  }

  #parse(connection: Connection): void {
    const { socket } = connection;
    const bytes = this.#takeUnparsed(connection);
    connection.isStopped = false;
    parserOf(socket)?.resume();
    // Resumes the socket before the bytes are parsed, because a later resume would undo a pause by the parser.
    socket.resume();
    // Node's own `data` listener passes the bytes to the parser.
    if (bytes !== undefined) socket.emit('data', bytes);
  }

  #takeUnparsed(connection: Connection): Buffer | undefined {
    const { unparsed } = connection;
    connection.unparsed = undefined;
    this.#unparsedBytes -= unparsed?.length ?? 0;
    return unparsed;
  }

  /** Delays the close of a connection with unread bytes until these bytes are read and dropped. */
  #expectMore(connection: Connection): void {
    if (connection.isPipelined) return;
    connection.isPipelined = true;
    const { socket } = connection;
    socket.once('close', () => this.#takeUnparsed(connection));
    // Pauses the socket again, because Node reads after a 'resume' event even if the socket is paused.
    socket.on('resume', () => {
      // After a connection's final response, the socket is not paused again, so that the remaining bytes are read and dropped.
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
 * Ends a request whose body cannot be read. If the response has already started, sends no rejection, because the client would
 * treat the rejection as the response to another request.
 */
function rejectRunning(
  response: Response,
  error: NodeJS.ErrnoException,
  socket: Socket,
  reject: () => void,
): void {
  if (!response.headersSent) reject();
  // An ended response can still have bytes to send, so the socket stays open.
  else if (error.code === TOO_SLOW_CODE || !response.writableEnded) socket.destroy();
}

/** Chunked bodies are parsed only when a handler reads them, because each chunk costs about 200 bytes and 2 µs. */
function isChunked({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined;
}

function parserOf(socket: Socket): Parser | undefined {
  return (socket as Socket & { parser?: Parser | null }).parser ?? undefined;
}
