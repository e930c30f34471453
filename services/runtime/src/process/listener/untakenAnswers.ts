/** What clients do not take of their answers stays in memory: where that is too much, some of them go with their connections. */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Of all of them but the largest: an operator’s answer may be larger by itself, and is no reason to cut others off. */
const UNTAKEN_BYTES = 128 * 1024 * 1024;
/** Smaller ones are not counted. */
const LARGE_BYTES = 64 * 1024;
/** One of which nothing was taken for so long stands still. */
const STILL_MS = 5_000;

interface Untaken {
  readonly answer: ServerResponse;
  readonly address: string;
  /** All of it, which is in memory until the last byte is taken. */
  readonly bytes: number;
  left: number;
  /** When `left` was last seen to have changed. */
  takenMs: number;
}

export class UntakenAnswers {
  readonly #all = new Map<ServerResponse, Untaken>();

  /** @param answer that has ended, and never goes for its own sake */
  note(answer: ServerResponse): void {
    const bytes = answer.writableLength;
    if (bytes < LARGE_BYTES || answer.writableFinished) return;
    const nowMs = performance.now();
    for (const one of this.#all.values()) {
      const left = leftOf(one.answer);
      if (left !== one.left) Object.assign(one, { left, takenMs: nowMs });
    }
    const address = answer.socket?.remoteAddress ?? '';
    this.#all.set(answer, { answer, address, bytes, left: leftOf(answer), takenMs: nowMs });
    answer.once('close', () => this.#all.delete(answer));
    for (;;) {
      const goes = this.#next(answer, nowMs);
      if (goes === undefined) return;
      this.#all.delete(goes);
      goes.destroy();
    }
  }

  /** First those that stand still, then those of the address that holds most, then those of which most is left. */
  #next(newest: ServerResponse, nowMs: number): ServerResponse | undefined {
    const held = new Map<string, number>();
    let sum = 0;
    let largest: Untaken | undefined;
    for (const one of this.#all.values()) {
      held.set(one.address, (held.get(one.address) ?? 0) + one.bytes);
      sum += one.bytes;
      if (one.bytes > (largest?.bytes ?? 0)) largest = one;
    }
    if (largest === undefined || sum - largest.bytes <= UNTAKEN_BYTES) return undefined;
    const standsStill = ({ takenMs }: Untaken): boolean => nowMs - takenMs >= STILL_MS;
    const ranks = [
      (one: Untaken) => Number(standsStill(one)),
      ({ address }: Untaken) => held.get(address) ?? 0,
      ({ left }: Untaken) => left,
    ];
    const isBefore = (a: Untaken, b: Untaken): boolean => {
      const rank = ranks.find((rank) => rank(a) !== rank(b));
      return rank !== undefined && rank(a) > rank(b);
    };
    let first: Untaken | undefined;
    for (const one of this.#all.values()) {
      const mayGo = one.answer !== newest && (one !== largest || standsStill(one));
      if (mayGo && (first === undefined || isBefore(one, first))) first = one;
    }
    return first?.answer;
  }
}

/** Of one large piece Node tells no progress until all of it is taken. libuv does, and by that Node's own timeout goes, too. */
function leftOf({ socket }: ServerResponse): number {
  const { _handle: handle } = (socket ?? {}) as Socket & { _handle?: { writeQueueSize: number } };
  return handle?.writeQueueSize ?? 0;
}
