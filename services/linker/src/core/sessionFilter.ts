/**
 * Bloom filter of the sessions with reports, one megabyte per process. An event that is late, or has a wrong time, needs a
 * ClickHouse lookup only if the filter contains the event's session.
 */

/** With 10 bits per session, the Bloom filter wrongly reports a match for about 1 % of the sessions without reports. */
const BITS_PER_SESSION = 10;
const HASHES = 7;

export class SessionFilter {
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
 * Sessions with reports in one partition. Until these sessions are loaded from ClickHouse, every session is treated as a
 * session with reports.
 */
export class SessionsWithReports {
  readonly filter: SessionFilter;
  #isComplete = false;

  constructor(filter: SessionFilter) {
    this.filter = filter;
  }

  complete(): void {
    this.#isComplete = true;
  }

  add(sessionId: string): void {
    this.filter.add(sessionId);
  }

  mayContain(sessionId: string): boolean {
    return !this.#isComplete || this.filter.mayContain(sessionId);
  }
}

/** Hashes the session id. The filter needs random bits, and a game can choose session ids that are not random. */
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

function finalize(hash: number): number {
  let h = hash ^ (hash >>> 16);
  h = Math.imul(h, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return h ^ (h >>> 16);
}
