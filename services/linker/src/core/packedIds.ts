/** Set of ids in typed arrays, which needs a quarter of the memory of a JavaScript `Set` of strings. */

const WORDS_PER_ROW = 5;
const ENTRY_WORD = 4;
const INITIAL_CAPACITY = 256;
/** Marks a free slot of the hash table. Any other slot contains a row number plus one. */
const FREE = 0;

export class PackedIds {
  #capacity = INITIAL_CAPACITY;
  #rows = new Uint32Array(INITIAL_CAPACITY * WORDS_PER_ROW);
  #times = new Float64Array(INITIAL_CAPACITY);
  #index = new Int32Array(INITIAL_CAPACITY * 2);
  #first = 0;
  #size = 0;
  readonly #idWords = new Uint32Array(ENTRY_WORD);

  get size(): number {
    return this.#size;
  }

  get oldest(): { readonly entry: number; readonly since: number; readonly count: number } | undefined {
    if (this.#size === 0) return undefined;
    const entry = this.#entryOf(0);
    let count = 1;
    while (count < this.#size && this.#entryOf(count) === entry) count++;
    return { entry, since: this.#times[this.#first] ?? 0, count };
  }

  has(id: string): boolean {
    setWords(this.#idWords, id);
    const mask = this.#index.length - 1;
    for (let slot = preferredSlotOf(this.#idWords, 0) & mask; ; slot = (slot + 1) & mask) {
      const row = (this.#index[slot] ?? FREE) - 1;
      if (row < 0) return false;
      if (this.#isSameId(row * WORDS_PER_ROW)) return true;
    }
  }

  add(id: string, entry: number, since: number): void {
    if (this.#size === this.#capacity) this.#grow();
    const row = (this.#first + this.#size) & (this.#capacity - 1);
    setWords(this.#idWords, id);
    this.#rows.set(this.#idWords, row * WORDS_PER_ROW);
    this.#rows[row * WORDS_PER_ROW + ENTRY_WORD] = entry;
    this.#times[row] = since;
    this.#size++;
    this.#addToIndex(row);
  }

  dropOldest(): void {
    this.#removeFromIndex(this.#first);
    this.#first = (this.#first + 1) & (this.#capacity - 1);
    this.#size--;
  }

  #entryOf(nth: number): number {
    const row = (this.#first + nth) & (this.#capacity - 1);
    return this.#rows[row * WORDS_PER_ROW + ENTRY_WORD] ?? 0;
  }

  #isSameId(at: number): boolean {
    for (let i = 0; i < ENTRY_WORD; i++) if (this.#rows[at + i] !== this.#idWords[i]) return false;
    return true;
  }

  #addToIndex(row: number): void {
    const mask = this.#index.length - 1;
    let slot = preferredSlotOf(this.#rows, row * WORDS_PER_ROW) & mask;
    while (this.#index[slot] !== FREE) slot = (slot + 1) & mask;
    this.#index[slot] = row + 1;
  }

  /** Removes a row from the hash table. Moves later rows into the gap, because a search would stop at a free slot. */
  #removeFromIndex(row: number): void {
    const mask = this.#index.length - 1;
    let hole = preferredSlotOf(this.#rows, row * WORDS_PER_ROW) & mask;
    while (this.#index[hole] !== row + 1) hole = (hole + 1) & mask;
    for (let slot = (hole + 1) & mask; this.#index[slot] !== FREE; slot = (slot + 1) & mask) {
      const occupant = this.#index[slot] ?? FREE;
      const preferred = preferredSlotOf(this.#rows, (occupant - 1) * WORDS_PER_ROW) & mask;
      if (((slot - preferred) & mask) < ((slot - hole) & mask)) continue;
      this.#index[hole] = occupant;
      hole = slot;
    }
    this.#index[hole] = FREE;
  }

  #grow(): void {
    const [rows, times] = [this.#rows, this.#times];
    const first = this.#first;
    this.#capacity *= 2;
    this.#rows = new Uint32Array(this.#capacity * WORDS_PER_ROW);
    this.#rows.set(rows.subarray(first * WORDS_PER_ROW));
    this.#rows.set(rows.subarray(0, first * WORDS_PER_ROW), rows.length - first * WORDS_PER_ROW);
    this.#times = new Float64Array(this.#capacity);
    this.#times.set(times.subarray(first));
    this.#times.set(times.subarray(0, first), times.length - first);
    this.#first = 0;
    this.#index = new Int32Array(this.#capacity * 2);
    for (let row = 0; row < this.#size; row++) this.#addToIndex(row);
  }
}

function setWords(words: Uint32Array, id: string): void {
  words[0] = Number.parseInt(id.slice(0, 8), 16);
  words[1] = Number.parseInt(id.slice(9, 13) + id.slice(14, 18), 16);
  words[2] = Number.parseInt(id.slice(19, 23) + id.slice(24, 28), 16);
  words[3] = Number.parseInt(id.slice(28), 16);
}

function preferredSlotOf(words: Uint32Array, at: number): number {
  const high = Math.imul((words[at] ?? 0) ^ (words[at + 2] ?? 0), 0x85ebca6b);
  const low = Math.imul((words[at + 1] ?? 0) ^ (words[at + 3] ?? 0), 0x9e3779b1);
  const hash = high ^ low;
  return hash ^ (hash >>> 15);
}
