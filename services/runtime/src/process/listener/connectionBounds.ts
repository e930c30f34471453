/** What one connection, or all of a listener together, may hold of its memory and its time. */
import { IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/** Of a body, and one more for each so many bytes. */
export const MAX_SMALL_CHUNKS = 4_096;
export const MEAN_CHUNK_BYTES = 256;
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

/** A chunk of a body takes some 200 bytes of memory and two microseconds, however small it is. */
export function requestsOf(refuseChunks: (socket: Socket) => void): typeof IncomingMessage {
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

/**
 * Node begins every request that a connection has brought, and its client may send thousands before it reads an answer.
 * The answers go out in the order of the requests anyway (RFC 9112, section 9.3.2).
 */
export class RequestsUnderWay {
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
 * Ends connections whose clients may still be sending. Closed with bytes unread one would be reset, and its client might lose
 * the answer (RFC 9112, section 9.6). What comes is not parsed any more.
 */
export class Lingering {
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
