/** A token bucket that starts full. In s seconds, the bucket provides at most `perSecond` × s + `capacity` tokens. Pure. */

export interface Rate {
  readonly perSecond: number;
  /** Maximum tokens, at least 1. */
  readonly capacity: number;
}

export class Bucket {
  /** Number of tokens. Negative after a request that is larger than the capacity. */
  #level = Number.POSITIVE_INFINITY;
  #atMs = 0;

  /** Returns the current number of tokens. The rate may differ from the rate of the last call. */
  level(nowMs: number, { perSecond, capacity }: Rate): number {
    // If the clock was set back, the bucket refills from the new time.
    const forMs = Math.max(0, nowMs - this.#atMs);
    this.#level = Math.min(capacity, this.#level + (forMs / 1000) * perSecond);
    this.#atMs = nowMs;
    return this.#level;
  }

  take(count: number): void {
    this.#level -= count;
  }
}

/**
 * Returns the number of tokens that `count` requires. A full bucket is always enough; otherwise, a large request would never
 * pass.
 */
export function neededFor(count: number, { capacity }: Rate): number {
  return Math.min(count, capacity);
}
