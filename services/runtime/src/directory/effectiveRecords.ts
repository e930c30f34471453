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
export const PREDECESSOR_HEADER = 'questlog-follows';
/** The offset of the record that this one repeats. */
export const COPY_OF_HEADER = 'questlog-repeats';

/** Before the first offset. */
const NO_RECORD = -1;

interface EffectiveRecord {
  /** The offset of its predecessor. */
  readonly predecessorOffset: number;
  /** Its offset; for a repeat, that of the repeated record. */
  readonly offset: number;
  /** A copy: the record's own bytes would keep the whole fetched buffer alive. */
  readonly value: Buffer | null;
  /** True unless a record that does not count is behind it. */
  readonly isLast: boolean;
}

export class EffectiveRecords {
  /** The record that counts, by key. Tombstones too: a change decided on the entity may still come. */
  readonly #byKey = new Map<string, EffectiveRecord>();

  /** The headers of a record that is decided on the records read so far. */
  headersFor(key: string): Headers {
    return { [PREDECESSOR_HEADER]: headerOf(this.#byKey.get(key)?.offset ?? NO_RECORD) };
  }

  /** Takes each record of the topic, in order. Returns false for one that does not count. */
  accept({ key, value, offset, headers }: Omit<LogRecord, 'timestampMs'>): boolean {
    if (key === null) return true;
    const effective = this.#byKey.get(key);
    const copiedOffset = offsetFrom(headers[COPY_OF_HEADER]) ?? NO_RECORD;
    // A repeat is behind what it repeats. Any other offset, if taken, would keep all later changes from counting.
    const originalOffset = copiedOffset !== NO_RECORD && copiedOffset < offset ? copiedOffset : offset;
    const namedPredecessor = offsetFrom(headers[PREDECESSOR_HEADER]) ?? originalOffset;
    // A predecessor at or behind the record itself was cut from the log since.
    const predecessorOffset = namedPredecessor < originalOffset ? namedPredecessor : originalOffset - 1;
    if (effective !== undefined && !supersedes(effective, predecessorOffset, originalOffset)) {
      this.#byKey.set(key, { ...effective, isLast: false });
      return false;
    }
    this.#byKey.set(key, {
      predecessorOffset,
      offset: originalOffset,
      value: value && Buffer.from(value),
      isLast: true,
    });
    return true;
  }

  /** Each key, and whether its last record counts. */
  lastRecords(): [string, boolean][] {
    return [...this.#byKey].map(([key, { isLast }]) => [key, isLast]);
  }

  /**
   * What a cut of the log has taken: for each key whose record that counts is gone, its bytes, to follow what counts now.
   * @param current of the log as it is now.
   * @param offset from which on the log was cut; what it has there now was decided since.
   */
  missingFrom(current: EffectiveRecords, offset: number): NewRecord[] {
    return [...this.#byKey].flatMap(([key, { value }]) => {
      const currentRecord = current.#byKey.get(key);
      const isDecidedAfter = currentRecord !== undefined && currentRecord.offset >= offset;
      if (isDecidedAfter || isSameValue(value, currentRecord?.value ?? null)) return [];
      return [{ key, value, headers: current.headersFor(key) }];
    });
  }

  /** Knows from now on what another one does. */
  replaceWith(other: EffectiveRecords): void {
    this.#byKey.clear();
    for (const [key, record] of other.#byKey) this.#byKey.set(key, record);
  }

  /** The record to repeat for a key whose last record does not count. */
  copyFor(key: string): NewRecord | undefined {
    const effective = this.#byKey.get(key);
    if (effective === undefined || effective.isLast) return undefined;
    const headers = {
      [PREDECESSOR_HEADER]: headerOf(effective.predecessorOffset),
      [COPY_OF_HEADER]: String(effective.offset),
    };
    return { key, value: effective.value, headers };
  }
}

/** True for a record with this predecessor and offset that counts after `best`. */
function supersedes(effective: EffectiveRecord, predecessorOffset: number, offset: number): boolean {
  return predecessorOffset === effective.predecessorOffset
    ? offset <= effective.offset
    : predecessorOffset > effective.predecessorOffset;
}

function isSameValue(a: Buffer | null, b: Buffer | null): boolean {
  return a === null || b === null ? a === b : a.equals(b);
}

function headerOf(offset: number): string {
  return offset === NO_RECORD ? '' : String(offset);
}

/** A header that names no offset is as none: as a number that is none, it would keep all later changes from counting. */
function offsetFrom(header: string | undefined): number | undefined {
  if (header === '') return NO_RECORD;
  const offset = Number(header);
  return Number.isSafeInteger(offset) && offset >= 0 ? offset : undefined;
}
