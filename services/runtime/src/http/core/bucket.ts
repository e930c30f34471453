/** Token bucket that starts full. In s seconds, the bucket provides at most `perSecond` × s + `capacity` tokens. */

export interface Rate {
  readonly perSecond: number;
  readonly capacity: number;
}

export class Bucket {
  /** Number of tokens in the bucket. A request that is larger than the capacity makes the number negative. */
  #level = Number.POSITIVE_INFINITY;
  #atMs = 0;

  level(nowMs: number, { perSecond, capacity }: Rate): number {
    // If the system clock was set back, the elapsed time is 0.
    const forMs = Math.max(0, nowMs - this.#atMs);
    this.#level = Math.min(capacity, this.#level + (forMs / 1000) * perSecond);
    this.#atMs = nowMs;
    return this.#level;
  }

  take(count: number): void {
    this.#level -= count;
  }
}

/** Returns how many tokens the bucket must contain to allow a request for `count` tokens. A full bucket allows any request. */
export function neededFor(count: number, { capacity }: Rate): number {
  return Math.min(count, capacity);
}
