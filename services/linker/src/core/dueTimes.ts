/** Keys with the time at which each is due. What is not due yet costs nothing to ask for. Pure. */

export class DueTimes {
  readonly #times = new Map<string, number>();
  /** No key is due before. */
  #earliestMs = Number.POSITIVE_INFINITY;

  /** @param atMs milliseconds since the epoch; undefined: never. */
  set(key: string, atMs: number | undefined): void {
    if (atMs === undefined) {
      this.#times.delete(key);
      return;
    }
    this.#times.set(key, atMs);
    this.#earliestMs = Math.min(this.#earliestMs, atMs);
  }

  /** Keys that are due, the longest due first. */
  due(nowMs: number): string[] {
    if (nowMs < this.#earliestMs) return [];
    const due: [key: string, atMs: number][] = [];
    let earliestMs = Number.POSITIVE_INFINITY;
    for (const [key, atMs] of this.#times) {
      if (atMs <= nowMs) due.push([key, atMs]);
      earliestMs = Math.min(earliestMs, atMs);
    }
    this.#earliestMs = earliestMs;
    return due.sort((a, b) => a[1] - b[1]).map(([key]) => key);
  }
}
