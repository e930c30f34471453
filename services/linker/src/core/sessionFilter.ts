/**
 * A Bloom filter of the sessions that may have a report. A game that tells its local time as UTC sends many events off
 * the clock, while sessions with a report are few; only events of both kinds need a look-up. One serves all partitions of
 * a process: what it knows of the others' sessions costs a look-up now and then, and a filter each a MiB. Pure.
 */

/** So many bits a session let about one in a hundred others pass for one of them. */
const BITS_PER_SESSION = 10;
const HASHES = 7;

export class SessionFilter {
  /** The filter is of no use for more. */
  readonly maxSessions: number;
  readonly #bits: Uint8Array;

  constructor(maxSessions: number) {
    this.maxSessions = maxSessions;
    this.#bits = new Uint8Array(Math.ceil((maxSessions * BITS_PER_SESSION) / 8));
  }

  add(sessionId: string): void {
    const { first, step } = hashesOf(sessionId);
    for (let i = 0; i < HASHES; i++) {
      const bit = this.#bitOf(first, step, i);
      this.#bits[bit >>> 3] = (this.#bits[bit >>> 3] ?? 0) | (1 << (bit & 7));
    }
  }

  /** Never false for a session that was added. */
  mayContain(sessionId: string): boolean {
    const { first, step } = hashesOf(sessionId);
    for (let i = 0; i < HASHES; i++) {
      const bit = this.#bitOf(first, step, i);
      if (((this.#bits[bit >>> 3] ?? 0) & (1 << (bit & 7))) === 0) return false;
    }
    return true;
  }

  #bitOf(first: number, step: number, i: number): number {
    return ((first + Math.imul(step, i)) >>> 0) % (this.#bits.length * 8);
  }
}

/**
 * What one partition's linker knows of them. Until everything was added that other owners of the partition may have let
 * go, each session may have a report.
 */
export class SessionsWithReports {
  readonly filter: SessionFilter;
  #isComplete = false;

  constructor(filter: SessionFilter) {
    this.filter = filter;
  }

  /** Sessions that were not added have no report from now on. */
  complete(): void {
    this.#isComplete = true;
  }

  add(sessionId: string): void {
    this.filter.add(sessionId);
  }

  /** Never false for a session that has one. */
  mayContain(sessionId: string): boolean {
    return !this.#isComplete || this.filter.mayContain(sessionId);
  }
}

/** FNV-1a from two starting points; ids are chosen by games and need not be random. */
function hashesOf(text: string): { first: number; step: number } {
  let first = 0x811c9dc5;
  let step = 0x1b873593;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    first = Math.imul(first ^ code, 0x01000193);
    step = Math.imul(step ^ code, 0x5bd1e995);
  }
  return { first: finalize(first), step: finalize(step) | 1 };
}

/** The finaliser of MurmurHash3: neighbours end far apart. */
function finalize(hash: number): number {
  let h = hash ^ (hash >>> 16);
  h = Math.imul(h, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return h ^ (h >>> 16);
}
