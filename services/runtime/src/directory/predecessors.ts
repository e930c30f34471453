/**
 * Which records of the directory count. A change is decided on what its process has read, so its record names, in a
 * header, the record that made what it was decided on. Of the records of one key the one counts that names the youngest,
 * and of those that name the same one the first. The others were decided on what was no longer true: they count for
 * nobody, and their processes decide again. Of those that change one entity at the same time one is always through. A
 * record without the header counts always, as if it named what was before it.
 *
 * Compaction keeps the last record of a key, also where that does not count. So behind one that does not, the one that
 * counts is repeated: the same bytes, the name that it has, and its offset in a second header. Compared with others the
 * repeat ranks as what it repeats, so any number of them is one. What counts is the greatest in that order, for each
 * reader that meets it or a repeat, wherever the reader began and whatever was removed before it came there.
 *
 * A key whose entity was deleted is not used again: once its tombstone is compacted away nobody knows what to name.
 */
import type { Headers, LogRecord, NewRecord } from '../log/log.ts';

/** The offset of the last record of the same key that counts; empty where there is none. */
export const FOLLOWS_HEADER = 'questlog-follows';
/** The offset of the record that this one repeats. */
export const REPEATS_HEADER = 'questlog-repeats';

/** Before the first offset. */
const NOTHING = -1;

interface Counting {
  /** What it names. */
  readonly follows: number;
  /** Its offset, of a repeat that of the first. */
  readonly offset: number;
  /** A copy: the record's own bytes are a part of all that was fetched with it. */
  readonly value: Buffer | null;
  /** Whether no record that does not count is behind it. */
  readonly isLast: boolean;
}

export class Predecessors {
  /** Of each key its record that counts. Tombstones, too: what is decided on the entity may still come. */
  readonly #counting = new Map<string, Counting>();

  /** The headers of a record that is decided on what was read so far. */
  headersFor(key: string): Headers {
    return { [FOLLOWS_HEADER]: nameOf(this.#counting.get(key)?.offset ?? NOTHING) };
  }

  /** Takes each record of the topic, in order. False: it does not count. */
  accept({ key, value, offset, headers }: Omit<LogRecord, 'timestampMs'>): boolean {
    if (key === null) return true;
    const best = this.#counting.get(key);
    const first = Number(headers[REPEATS_HEADER] ?? offset);
    const follows = offsetNamed(headers[FOLLOWS_HEADER]) ?? first - 1;
    if (best !== undefined && !isBefore(best, follows, first)) {
      this.#counting.set(key, { ...best, isLast: false });
      return false;
    }
    this.#counting.set(key, { follows, offset: first, value: value && Buffer.from(value), isLast: true });
    return true;
  }

  /** What counts of a key whose last record does not, to be appended once more. */
  repeatOf(key: string): NewRecord | undefined {
    const best = this.#counting.get(key);
    if (best === undefined || best.isLast) return undefined;
    const headers = { [FOLLOWS_HEADER]: nameOf(best.follows), [REPEATS_HEADER]: String(best.offset) };
    return { key, value: best.value, headers };
  }
}

/** Whether a record with this name and offset counts once `best` did. */
function isBefore(best: Counting, follows: number, offset: number): boolean {
  return follows === best.follows ? offset <= best.offset : follows > best.follows;
}

function nameOf(offset: number): string {
  return offset === NOTHING ? '' : String(offset);
}

function offsetNamed(header: string | undefined): number | undefined {
  if (header === undefined) return undefined;
  return header === '' ? NOTHING : Number(header);
}
