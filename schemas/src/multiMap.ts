/** Map from a key to several values, for example from a session to its open bug reports. */

/** If a key has only one value, the map stores the value without a set. Most keys have one value, so this halves the memory. */
export class MultiMap<T extends object> {
  readonly #values = new Map<string, T | Set<T>>();

  /** Number of keys in the map. A key with several values counts once. */
  get size(): number {
    return this.#values.size;
  }

  add(key: string, value: T): void {
    const existing = this.#values.get(key);
    if (existing === undefined) this.#values.set(key, value);
    else if (existing instanceof Set) existing.add(value);
    else this.#values.set(key, new Set([existing, value]));
  }

  delete(key: string, value: T): void {
    const existing = this.#values.get(key);
    if (existing instanceof Set) {
      existing.delete(value);
      if (existing.size === 0) this.#values.delete(key);
    } else if (existing === value) {
      this.#values.delete(key);
    }
  }

  get(key: string): Iterable<T> {
    const existing = this.#values.get(key);
    if (existing === undefined) return EMPTY;
    return existing instanceof Set ? existing : [existing];
  }
}

const EMPTY: readonly never[] = [];
