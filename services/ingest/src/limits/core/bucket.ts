/**
 * A token bucket: full at first, and refilled all the time. Pure: the time comes in. In `s` seconds at most
 * `perSecond` × s + `capacity` is taken. Where one request is larger than `capacity`, it counts there instead.
 */

export interface Rate {
  readonly perSecond: number;
  /** What may be taken at once, 1 at least. */
  readonly capacity: number;
}

export class Bucket {
  /** Below 0 after a request that is larger than the capacity. */
  #level = Number.POSITIVE_INFINITY;
  #atMs = 0;

  /** What is there now. The rate may be another than the last time. */
  level(nowMs: number, { perSecond, capacity }: Rate): number {
    // A clock that was set back refills from its new time on.
    const forMs = Math.max(0, nowMs - this.#atMs);
    this.#level = Math.min(capacity, this.#level + (forMs / 1000) * perSecond);
    this.#atMs = nowMs;
    return this.#level;
  }

  take(count: number): void {
    this.#level -= count;
  }
}

/** How much must be there before `count` may be taken: a full bucket is enough, or a large request would never pass. */
export function neededFor(count: number, { capacity }: Rate): number {
  return Math.min(count, capacity);
}
