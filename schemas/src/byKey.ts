/** Things by what they have in common, as open bug reports by their session or by an event that they name. Pure. */

/** Several things may have a key. Most keys have one, which takes no set of its own: half the memory. */
export class ByKey<T extends object> {
  readonly #things = new Map<string, T | Set<T>>();

  add(key: string, thing: T): void {
    const there = this.#things.get(key);
    if (there === undefined) this.#things.set(key, thing);
    else if (there instanceof Set) there.add(thing);
    else this.#things.set(key, new Set([there, thing]));
  }

  delete(key: string, thing: T): void {
    const there = this.#things.get(key);
    if (there instanceof Set) {
      there.delete(thing);
      if (there.size === 0) this.#things.delete(key);
    } else if (there === thing) {
      this.#things.delete(key);
    }
  }

  /** In the order in which they were added. */
  get(key: string): Iterable<T> {
    const there = this.#things.get(key);
    if (there === undefined) return NONE;
    return there instanceof Set ? there : [there];
  }
}

const NONE: readonly never[] = [];
