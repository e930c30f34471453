/** What clients do not take of their answers stays in memory: where that is too much, some of them go with their connections. */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Of all of them but the largest: an operator’s answer may be larger by itself, and is no reason to cut others off. */
const MAX_UNSENT_BYTES = 128 * 1024 * 1024;
/** Smaller ones are not counted. */
const MIN_TRACKED_BYTES = 64 * 1024;
/** One of which nothing was taken for so long stands still. */
const STALLED_AFTER_MS = 5_000;

interface UnsentResponse {
  readonly response: ServerResponse;
  readonly address: string;
  /** All of it, which is in memory until the last byte is taken. */
  readonly bytes: number;
  unsentBytes: number;
  /** When `left` was last seen to have changed. */
  progressAtMs: number;
}

export class UnsentResponses {
  readonly #all = new Map<ServerResponse, UnsentResponse>();

  /** @param response that has ended, and never goes for its own sake */
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

  /** First those that stand still, then those of the address that holds most, then those of which most is left. */
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

/** Of one large piece Node tells no progress until all of it is taken. libuv does, and by that Node's own timeout goes, too. */
function unsentBytesOf({ socket }: ServerResponse): number {
  const { _handle: handle } = (socket ?? {}) as Socket & { _handle?: { writeQueueSize: number } };
  return handle?.writeQueueSize ?? 0;
}
