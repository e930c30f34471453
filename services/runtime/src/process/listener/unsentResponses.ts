/** Limits the memory of responses that clients do not read, by closing the connections of these clients. */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Maximum bytes of all unsent responses. Above this limit, connections of slow clients are closed. The largest response is not
 * counted, so that one large response does not close other connections.
 */
const MAX_UNSENT_BYTES = 128 * 1024 * 1024;
const MIN_TRACKED_BYTES = 64 * 1024;
const STALLED_AFTER_MS = 5_000;

interface UnsentResponse {
  readonly response: ServerResponse;
  readonly address: string;
  /** Size of the response. The whole response stays in memory until the last byte is sent. */
  readonly bytes: number;
  unsentBytes: number;
  progressAtMs: number;
}

export class UnsentResponses {
  readonly #all = new Map<ServerResponse, UnsentResponse>();

  /** Adds a response to the unsent responses. Above `MAX_UNSENT_BYTES`, closes the connections of older responses. */
  track(response: ServerResponse): void {
    const bytes = response.writableLength;
    if (bytes < MIN_TRACKED_BYTES || response.writableFinished) return;
    const nowMs = performance.now();
    for (const one of this.#all.values()) {
      const unsentBytes = unsentBytesOf(one.response);
      if (unsentBytes !== one.unsentBytes) Object.assign(one, { unsentBytes, progressAtMs: nowMs });
    }
    const address = response.socket?.remoteAddress ?? '';
    this.#all.set(response, {
      response,
      address,
      bytes,
      unsentBytes: unsentBytesOf(response),
      progressAtMs: nowMs,
    });
    response.once('close', () => this.#all.delete(response));
    for (;;) {
      const closed = this.#nextToClose(response, nowMs);
      if (closed === undefined) return;
      this.#all.delete(closed);
      closed.destroy();
    }
  }

  #nextToClose(newest: ServerResponse, nowMs: number): ServerResponse | undefined {
    const bytesByAddress = new Map<string, number>();
    let sum = 0;
    let largest: UnsentResponse | undefined;
    for (const one of this.#all.values()) {
      bytesByAddress.set(one.address, (bytesByAddress.get(one.address) ?? 0) + one.bytes);
      sum += one.bytes;
      if (one.bytes > (largest?.bytes ?? 0)) largest = one;
    }
    if (largest === undefined || sum - largest.bytes <= MAX_UNSENT_BYTES) return undefined;
    const isStalled = ({ progressAtMs }: UnsentResponse): boolean => nowMs - progressAtMs >= STALLED_AFTER_MS;
    const ranks = [
      (one: UnsentResponse) => Number(isStalled(one)),
      ({ address }: UnsentResponse) => bytesByAddress.get(address) ?? 0,
      ({ unsentBytes }: UnsentResponse) => unsentBytes,
    ];
    const isBefore = (a: UnsentResponse, b: UnsentResponse): boolean => {
      const rank = ranks.find((rank) => rank(a) !== rank(b));
      return rank !== undefined && rank(a) > rank(b);
    };
    let first: UnsentResponse | undefined;
    for (const one of this.#all.values()) {
      const mayClose = one.response !== newest && (one !== largest || isStalled(one));
      if (mayClose && (first === undefined || isBefore(one, first))) first = one;
    }
    return first?.response;
  }
}

/** Returns the number of bytes in libuv's write queue. Node's own counter changes only after a whole chunk is sent. */
function unsentBytesOf({ socket }: ServerResponse): number {
  const { _handle: handle } = (socket ?? {}) as Socket & { _handle?: { writeQueueSize: number } };
  return handle?.writeQueueSize ?? 0;
}
