/**
 * An absolute count: a key's number of events in one partition of the log, up to an offset. A record at or below that
 * offset is already in it, so the same records may be applied any number of times. Pure.
 */

export interface Count {
  readonly count: number;
  readonly lastOffset: number;
}

/** The counts of one partition by key, as far as they are known; and which of them changed since the last drain. */
export class Rollup<Key> {
  readonly #counts = new Map<string, Count & { readonly key: Key }>();
  readonly #changed = new Set<string>();
  readonly #nameOf: (key: Key) => string;
  #characters = 0;

  constructor(nameOf: (key: Key) => string) {
    this.#nameOf = nameOf;
  }

  knows(key: Key): boolean {
    return this.#counts.has(this.#nameOf(key));
  }

  /** What the table holds for a key; a key that it does not hold has a count of 0 below every offset. */
  load(key: Key, held: Count | undefined): void {
    const name = this.#nameOf(key);
    if (!this.#counts.has(name)) this.#characters += name.length;
    this.#counts.set(name, { key, ...(held ?? { count: 0, lastOffset: -1 }) });
  }

  /** Adds the events of one record, unless the count already has them. The key must have been loaded. */
  add(key: Key, offset: number, events: number): void {
    const name = this.#nameOf(key);
    const known = this.#counts.get(name);
    if (known === undefined) throw new Error(`the count of ${name} was not loaded`);
    // A record's events of one key are added together, so an offset is either in a count or not.
    if (offset <= known.lastOffset) return;
    this.#counts.set(name, { key, count: known.count + events, lastOffset: offset });
    this.#changed.add(name);
  }

  /** The rows to write: every count that changed. */
  drain(): (Count & { readonly key: Key })[] {
    const rows = [...this.#changed].flatMap((name) => this.#counts.get(name) ?? []);
    this.#changed.clear();
    return rows;
  }

  /** Everything; what changed must have been drained. */
  forget(): void {
    this.#counts.clear();
    this.#characters = 0;
  }

  get size(): number {
    return this.#counts.size;
  }

  /** Of all names together: keys hold text of any length. */
  get characters(): number {
    return this.#characters;
  }
}
