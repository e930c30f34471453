/**
 * Ids in the order in which they came, each with what it is filed under, and an index by hash. Both are numbers in
 * buffers: the same ids as strings in a set take four times as much. Pure.
 */

/** Numbers of one id: its 128 bits, and what it is filed under. */
const WORDS = 5;
const FILED = 4;
const FIRST_CAPACITY = 256;
/** A free place of the index. Any other value is the row of the id, plus one. */
const FREE = 0;

export class PackedIds {
  #capacity = FIRST_CAPACITY;
  /** A ring of rows. */
  #rows = new Uint32Array(FIRST_CAPACITY * WORDS);
  #times = new Float64Array(FIRST_CAPACITY);
  #index = new Int32Array(FIRST_CAPACITY * 2);
  #first = 0;
  #size = 0;
  readonly #wanted = new Uint32Array(FILED);

  get size(): number {
    return this.#size;
  }

  /** What the oldest id is filed under and since when, and how many are with it; undefined where there is none. */
  get oldest(): { readonly entry: number; readonly since: number; readonly count: number } | undefined {
    if (this.#size === 0) return undefined;
    const entry = this.#filedUnder(0);
    let count = 1;
    while (count < this.#size && this.#filedUnder(count) === entry) count++;
    return { entry, since: this.#times[this.#first] ?? 0, count };
  }

  /** @param id a UUID in lower case. */
  has(id: string): boolean {
    setWords(this.#wanted, id);
    const mask = this.#index.length - 1;
    for (let place = homeOf(this.#wanted, 0) & mask; ; place = (place + 1) & mask) {
      const row = (this.#index[place] ?? FREE) - 1;
      if (row < 0) return false;
      if (this.#isWanted(row * WORDS)) return true;
    }
  }

  add(id: string, entry: number, since: number): void {
    if (this.#size === this.#capacity) this.#grow();
    const row = (this.#first + this.#size) & (this.#capacity - 1);
    setWords(this.#wanted, id);
    this.#rows.set(this.#wanted, row * WORDS);
    this.#rows[row * WORDS + FILED] = entry;
    this.#times[row] = since;
    this.#size++;
    this.#file(row);
  }

  dropOldest(): void {
    this.#unfile(this.#first);
    this.#first = (this.#first + 1) & (this.#capacity - 1);
    this.#size--;
  }

  #filedUnder(nth: number): number {
    const row = (this.#first + nth) & (this.#capacity - 1);
    return this.#rows[row * WORDS + FILED] ?? 0;
  }

  #isWanted(at: number): boolean {
    for (let i = 0; i < FILED; i++) if (this.#rows[at + i] !== this.#wanted[i]) return false;
    return true;
  }

  #file(row: number): void {
    const mask = this.#index.length - 1;
    let place = homeOf(this.#rows, row * WORDS) & mask;
    while (this.#index[place] !== FREE) place = (place + 1) & mask;
    this.#index[place] = row + 1;
  }

  /** Moves those behind it up, so that none of them is behind a free place. */
  #unfile(row: number): void {
    const mask = this.#index.length - 1;
    let hole = homeOf(this.#rows, row * WORDS) & mask;
    while (this.#index[hole] !== row + 1) hole = (hole + 1) & mask;
    for (let place = (hole + 1) & mask; this.#index[place] !== FREE; place = (place + 1) & mask) {
      const filed = this.#index[place] ?? FREE;
      const home = homeOf(this.#rows, (filed - 1) * WORDS) & mask;
      if (((place - home) & mask) < ((place - hole) & mask)) continue;
      this.#index[hole] = filed;
      hole = place;
    }
    this.#index[hole] = FREE;
  }

  #grow(): void {
    const [rows, times] = [this.#rows, this.#times];
    const turned = this.#first;
    this.#capacity *= 2;
    this.#rows = new Uint32Array(this.#capacity * WORDS);
    this.#rows.set(rows.subarray(turned * WORDS));
    this.#rows.set(rows.subarray(0, turned * WORDS), rows.length - turned * WORDS);
    this.#times = new Float64Array(this.#capacity);
    this.#times.set(times.subarray(turned));
    this.#times.set(times.subarray(0, turned), times.length - turned);
    this.#first = 0;
    this.#index = new Int32Array(this.#capacity * 2);
    for (let row = 0; row < this.#size; row++) this.#file(row);
  }
}

function setWords(words: Uint32Array, id: string): void {
  words[0] = Number.parseInt(id.slice(0, 8), 16);
  words[1] = Number.parseInt(id.slice(9, 13) + id.slice(14, 18), 16);
  words[2] = Number.parseInt(id.slice(19, 23) + id.slice(24, 28), 16);
  words[3] = Number.parseInt(id.slice(28), 16);
}

/** Most bits of an id are drawn or hashed; those of a time, or counted up, are spread. */
function homeOf(words: Uint32Array, at: number): number {
  const high = Math.imul((words[at] ?? 0) ^ (words[at + 2] ?? 0), 0x85ebca6b);
  const low = Math.imul((words[at + 1] ?? 0) ^ (words[at + 3] ?? 0), 0x9e3779b1);
  const hash = high ^ low;
  return hash ^ (hash >>> 15);
}
