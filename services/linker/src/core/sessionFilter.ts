/**
 * Which sessions may have a report: a Bloom filter. Events whose clock is off are many where a game tells its local time
 * as UTC, sessions with a report are few; only those of both need a look-up. Pure.
 */

/** With so many bits a session, about one in a hundred others is taken for one of them. */
const BITS_A_SESSION = 10;
const HASHES = 7;

export class SessionFilter {
  /** Beyond it the filter is of no use. */
  readonly maxSessions: number;
  readonly #bits: Uint8Array;
  #isComplete = false;

  constructor(maxSessions: number) {
    this.maxSessions = maxSessions;
    this.#bits = new Uint8Array(Math.ceil((maxSessions * BITS_A_SESSION) / 8));
  }

  /** From now on, what was not added has no report. */
  complete(): void {
    this.#isComplete = true;
  }

  add(sessionId: string): void {
    const { first, step } = hashesOf(sessionId);
    for (let i = 0; i < HASHES; i++) {
      const bit = this.#bitOf(first, step, i);
      this.#bits[bit >>> 3] = (this.#bits[bit >>> 3] ?? 0) | (1 << (bit & 7));
    }
  }

  /** Never false for a session that has one. */
  mayHave(sessionId: string): boolean {
    if (!this.#isComplete) return true;
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

/** FNV-1a from two starting points; ids are chosen by games and need not be random. */
function hashesOf(text: string): { first: number; step: number } {
  let first = 0x811c9dc5;
  let step = 0x1b873593;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    first = Math.imul(first ^ code, 0x01000193);
    step = Math.imul(step ^ code, 0x5bd1e995);
  }
  return { first: mixed(first), step: mixed(step) | 1 };
}

/** The finaliser of MurmurHash3: neighbours end far apart. */
function mixed(hash: number): number {
  let h = hash ^ (hash >>> 16);
  h = Math.imul(h, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return h ^ (h >>> 16);
}
