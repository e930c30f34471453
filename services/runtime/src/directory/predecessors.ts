/**
 * Decides which records of the directory count. A process decides a change on the entity as it has read it, so the
 * change's record names its predecessor in a header: the record that made that entity. Of the records of one key, the one
 * with the youngest predecessor counts, and of those with the same predecessor the first. The others were decided on an
 * old entity: they count for nobody, and their processes decide again. Of concurrent changes one always succeeds. A record
 * without the header always counts, as if it named the record before it.
 *
 * Compaction keeps the last record of a key, also one that does not count. So the record that counts is repeated behind
 * it: the same bytes, the same predecessor, and its offset in a second header. A repeat ranks as the record that it
 * repeats, so any number of repeats is one. The greatest in that order counts, for every reader that meets it or a repeat,
 * wherever the reader began and whatever compaction removed.
 *
 * The key of a deleted entity is not used again: once its tombstone is compacted away, nobody knows the predecessor.
 */
import type { Headers, LogRecord, NewRecord } from '../log/log.ts';

/** The offset of the last record of the same key that counts; empty where there is none. */
export const FOLLOWS_HEADER = 'questlog-follows';
/** The offset of the record that this one repeats. */
export const REPEATS_HEADER = 'questlog-repeats';

/** Before the first offset. */
const NOTHING = -1;

interface Counting {
  /** The offset of its predecessor. */
  readonly follows: number;
  /** Its offset; for a repeat, that of the repeated record. */
  readonly offset: number;
  /** A copy: the record's own bytes would keep the whole fetched buffer alive. */
  readonly value: Buffer | null;
  /** True unless a record that does not count is behind it. */
  readonly isLast: boolean;
}

export class Predecessors {
  /** The record that counts, by key. Tombstones too: a change decided on the entity may still come. */
  readonly #counting = new Map<string, Counting>();

  /** The headers of a record that is decided on the records read so far. */
  headersFor(key: string): Headers {
    return { [FOLLOWS_HEADER]: nameOf(this.#counting.get(key)?.offset ?? NOTHING) };
  }

  /** Takes each record of the topic, in order. Returns false for one that does not count. */
  accept({ key, value, offset, headers }: Omit<LogRecord, 'timestampMs'>): boolean {
    if (key === null) return true;
    const best = this.#counting.get(key);
    const repeated = offsetNamed(headers[REPEATS_HEADER]) ?? NOTHING;
    // A repeat is behind what it repeats. Any other offset, if taken, would keep all later changes from counting.
    const first = repeated !== NOTHING && repeated < offset ? repeated : offset;
    const named = offsetNamed(headers[FOLLOWS_HEADER]) ?? first;
    // A predecessor at or behind the record itself was cut from the log since.
    const follows = named < first ? named : first - 1;
    if (best !== undefined && !isBefore(best, follows, first)) {
      this.#counting.set(key, { ...best, isLast: false });
      return false;
    }
    this.#counting.set(key, { follows, offset: first, value: value && Buffer.from(value), isLast: true });
    return true;
  }

  /** Each key, and whether its last record counts. */
  keys(): [string, boolean][] {
    return [...this.#counting].map(([key, { isLast }]) => [key, isLast]);
  }

  /**
   * What a cut of the log has taken: for each key whose record that counts is gone, its bytes, to follow what counts now.
   * @param now of the log as it is now.
   * @param offset from which on the log was cut; what it has there now was decided since.
   */
  lostTo(now: Predecessors, offset: number): NewRecord[] {
    return [...this.#counting].flatMap(([key, { value }]) => {
      const there = now.#counting.get(key);
      const isDecidedSince = there !== undefined && there.offset >= offset;
      if (isDecidedSince || isSame(value, there?.value ?? null)) return [];
      return [{ key, value, headers: now.headersFor(key) }];
    });
  }

  /** Knows from now on what another one does. */
  become(other: Predecessors): void {
    this.#counting.clear();
    for (const [key, record] of other.#counting) this.#counting.set(key, record);
  }

  /** The record to repeat for a key whose last record does not count. */
  repeatOf(key: string): NewRecord | undefined {
    const best = this.#counting.get(key);
    if (best === undefined || best.isLast) return undefined;
    const headers = { [FOLLOWS_HEADER]: nameOf(best.follows), [REPEATS_HEADER]: String(best.offset) };
    return { key, value: best.value, headers };
  }
}

/** True for a record with this predecessor and offset that counts after `best`. */
function isBefore(best: Counting, follows: number, offset: number): boolean {
  return follows === best.follows ? offset <= best.offset : follows > best.follows;
}

function isSame(a: Buffer | null, b: Buffer | null): boolean {
  return a === null || b === null ? a === b : a.equals(b);
}

function nameOf(offset: number): string {
  return offset === NOTHING ? '' : String(offset);
}

/** A header that names no offset is as none: as a number that is none, it would keep all later changes from counting. */
function offsetNamed(header: string | undefined): number | undefined {
  if (header === '') return NOTHING;
  const offset = Number(header);
  return Number.isSafeInteger(offset) && offset >= 0 ? offset : undefined;
}
