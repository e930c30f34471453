/**
 * Decides which records of the directory are effective. A process decides a change on the entity that it has read. The
 * change's record names its predecessor in a header: the offset of the record with that entity. Among the records of a
 * key, the record with the highest predecessor offset is effective; among equal ones, the first. The other records were
 * decided on an outdated entity. All readers ignore them, and their processes decide again. Among concurrent changes,
 * one always succeeds. A record without the header is always effective, as if it named the record before it.
 *
 * Compaction keeps the last record of a key, even if it is ineffective. Therefore a copy of the effective record is
 * appended after it, with the same bytes, the same predecessor, and the original offset in a second header. A copy has
 * the rank of its original, so several copies act as one. All readers of the effective record or of a copy agree,
 * whatever their start offset is and whatever compaction removed.
 *
 * The key of a deleted entity is never reused, because compaction eventually removes its tombstone, the predecessor.
 */
import type { Headers, LogRecord, NewRecord } from '../log/log.ts';

/** Offset of the last effective record of the same key. Empty without a predecessor. */
export const PREDECESSOR_HEADER = 'questlog-follows';
/** Offset of the record that this record is a copy of. */
export const COPY_OF_HEADER = 'questlog-repeats';

/** Less than every offset. */
const NO_RECORD = -1;

interface EffectiveRecord {
  readonly predecessorOffset: number;
  /** Offset of the record or, for a copy, of its original. */
  readonly offset: number;
  /** Copied, because the record's bytes would keep the whole fetched buffer in memory. */
  readonly value: Buffer | null;
  /** True unless an ineffective record of the key follows. */
  readonly isLast: boolean;
}

export class EffectiveRecords {
  /** Effective records by key, including tombstones, because a change decided before the deletion may follow. */
  readonly #byKey = new Map<string, EffectiveRecord>();

  /** Returns the headers of a change that is decided on the records read so far. */
  headersFor(key: string): Headers {
    return { [PREDECESSOR_HEADER]: headerOf(this.#byKey.get(key)?.offset ?? NO_RECORD) };
  }

  /** Must be called with each record of the topic in order. Returns false if the record is ineffective. */
  accept({ key, value, offset, headers }: Omit<LogRecord, 'timestampMs'>): boolean {
    if (key === null) return true;
    const effective = this.#byKey.get(key);
    const copiedOffset = offsetFrom(headers[COPY_OF_HEADER]) ?? NO_RECORD;
    // A copy follows its original. Any other offset would make all later changes ineffective.
    const originalOffset = copiedOffset !== NO_RECORD && copiedOffset < offset ? copiedOffset : offset;
    const namedPredecessor = offsetFrom(headers[PREDECESSOR_HEADER]) ?? originalOffset;
    // A predecessor at or above the record's own offset was lost in a truncation.
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

  /** Returns each key, and whether its last record is effective. */
  lastRecords(): [string, boolean][] {
    return [...this.#byKey].map(([key, { isLast }]) => [key, isLast]);
  }

  /**
   * Returns records that restore what a truncation removed: the values of lost effective records, each with the current
   * record as its predecessor.
   * @param current effective records of the truncated log.
   * @param offset start of the truncation. Records at or above it were decided afterwards and are kept.
   */
  missingFrom(current: EffectiveRecords, offset: number): NewRecord[] {
    return [...this.#byKey].flatMap(([key, { value }]) => {
      const currentRecord = current.#byKey.get(key);
      const isDecidedAfter = currentRecord !== undefined && currentRecord.offset >= offset;
      if (isDecidedAfter || isSameValue(value, currentRecord?.value ?? null)) return [];
      return [{ key, value, headers: current.headersFor(key) }];
    });
  }

  replaceWith(other: EffectiveRecords): void {
    this.#byKey.clear();
    for (const [key, record] of other.#byKey) this.#byKey.set(key, record);
  }

  /** Returns the copy to append for a key whose last record is ineffective. */
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

/** True if a record with this predecessor and offset replaces the effective one. */
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

/** Returns undefined for a malformed header, because an invalid number would make all later changes ineffective. */
function offsetFrom(header: string | undefined): number | undefined {
  if (header === '') return NO_RECORD;
  const offset = Number(header);
  return Number.isSafeInteger(offset) && offset >= 0 ? offset : undefined;
}
