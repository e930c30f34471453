/** Closes connections whose clients can still be sending data. */
import type { Duplex } from 'node:stream';

/**
 * Limits for reading the bytes that a client sends after the final response. `LINGER_BYTES` is twice the largest accepted body.
 */
const LINGER_MS = 5_000;
const LINGER_BYTES = 16 * 1024 * 1024;
/** Maximum rate of reads from all closing connections together, because the reads cost CPU time. */
const LINGER_BYTES_PER_SECOND = 32 * 1024 * 1024;

/**
 * Reads and drops the bytes that a client sends after the final response of its connection. If a connection closes with unread
 * bytes, TCP resets it, and the client can lose the response (RFC 9112, section 9.6).
 */
export class LingeringClose {
  #rateUsedUntilMs = 0;

  begin(socket: Duplex): void {
    let bytes = 0;
    socket.end();
    const timer = setTimeout(() => socket.destroy(), LINGER_MS);
    socket.once('close', () => clearTimeout(timer));
    socket.once('end', () => socket.destroy());
    // Resumes the socket, because no other code resumes a paused socket after its data listener has been replaced.
    socket.resume();
    socket.emit('resume');
    socket.removeAllListeners('data');
    socket.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > LINGER_BYTES) return void socket.destroy();
      const waitMs = this.#throttle(chunk.length);
      if (waitMs === 0) return;
      socket.pause();
      setTimeout(() => socket.resume(), waitMs).unref();
    });
  }

  /** Returns the pause in milliseconds before more bytes are read from the client. */
  #throttle(bytes: number): number {
    const nowMs = performance.now();
    const perMs = LINGER_BYTES_PER_SECOND / 1000;
    this.#rateUsedUntilMs = Math.max(this.#rateUsedUntilMs, nowMs - LINGER_BYTES / perMs) + bytes / perMs;
    return Math.max(0, this.#rateUsedUntilMs - nowMs);
  }
}
