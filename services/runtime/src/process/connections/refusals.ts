/** What a client is told whose request never reaches the application, and how its connection ends. */
import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';

/** The answer to bytes that are not a readable request. */
export interface Refusal {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}
export type RefusalOf = (isTooSlow: boolean) => Refusal;

export const TOO_SLOW = 'ERR_HTTP_REQUEST_TIMEOUT';
/** Of every answer that does not say otherwise: it is of one client, and is what its type says. */
export const COMMON_HEADERS = new Map([
  ['Cache-Control', 'no-store'],
  ['X-Content-Type-Options', 'nosniff'],
]);
/**
 * How much longer, and for how many bytes, a refused client may go on sending before its connection ends. Many send a body in
 * one piece before they look for an answer: twice the largest that is taken.
 */
const LINGER_MS = 5_000;
const LINGER_BYTES = 16 * 1024 * 1024;
/** Of all refused clients together, `LINGER_BYTES` of it at once: to read and drop it is work, too. */
const LINGER_BYTES_A_SECOND = 32 * 1024 * 1024;

export function bareRefusal(isTooSlow: boolean): Refusal {
  return { status: isTooSlow ? 408 : 400, headers: {}, body: '' };
}

/** Bytes that are not HTTP, and heads that are too large, never reach the application. */
export function refuse(
  error: NodeJS.ErrnoException,
  socket: Duplex,
  refusalOf: RefusalOf,
  lingering: Lingering,
): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
  const refusal = refusalOf(error.code === TOO_SLOW);
  const lines = [
    `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}`,
    ...Object.entries(headersOf(refusal)).map(([name, value]) => `${name}: ${value}`),
  ];
  socket.write(`${lines.join('\r\n')}\r\n\r\n${refusal.body}`);
  lingering.begin(socket);
}

export function headersOf({ headers, body }: Refusal): Record<string, string> {
  return {
    Connection: 'close',
    ...Object.fromEntries(COMMON_HEADERS),
    ...headers,
    'Content-Length': String(Buffer.byteLength(body)),
  };
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
