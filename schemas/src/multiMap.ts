/** Things by what they have in common, as open bug reports by their session or by an event that they name. Pure. */

/** Several things may have a key. Most keys have one, which takes no set of its own: half the memory. */
export class MultiMap<T extends object> {
  readonly #values = new Map<string, T | Set<T>>();

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

  /** In the order in which they were added. */
  get(key: string): Iterable<T> {
    const existing = this.#values.get(key);
    if (existing === undefined) return EMPTY;
    return existing instanceof Set ? existing : [existing];
  }
}

const EMPTY: readonly never[] = [];
