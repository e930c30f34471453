/**
 * Selects the valid record if two records replace the same older record. The valid record has the lower offset.
 *
 * The key of a deleted entity must not be used for another entity.
 */
import type { Headers, LogRecord, NewRecord } from '../log/log.ts';

/** Header with the offset of the record that the new record replaces. The header is empty in the first record of a key. */
export const PREDECESSOR_HEADER = 'questlog-follows';
/** Header of copied records. The header contains the offset of the original, so that several copies count as one record. */
export const COPY_OF_HEADER = 'questlog-repeats';

const NO_RECORD = -1;

interface EffectiveRecord {
  readonly predecessorOffset: number;
  /** Offset of the record or, for a copy, offset of the original record. */
  readonly offset: number;
  /** Copy of the record's value. The original value would keep the whole fetched buffer in memory. */
  readonly value: Buffer | null;
  readonly isLast: boolean;
}

export class EffectiveRecords {
  /**
   * The valid record of each key. After a deletion, the tombstone stays here, because the record of a concurrent change can
   * arrive after the tombstone.
   */
  readonly #byKey = new Map<string, EffectiveRecord>();

  headersFor(key: string): Headers {
    return { [PREDECESSOR_HEADER]: headerOf(this.#byKey.get(key)?.offset ?? NO_RECORD) };
  }

  /** Processes the next record of the topic. Returns false if the record is ignored. */
  accept({ key, value, offset, headers }: Omit<LogRecord, 'timestampMs'>): boolean {
    if (key === null) return true;
    const effective = this.#byKey.get(key);
    const copiedOffset = offsetFrom(headers[COPY_OF_HEADER]) ?? NO_RECORD;
    // Uses the header only if its offset is lower than the offset of this record. Any other header is wrong, because a copy
    // always has a higher offset than its original.
    const originalOffset = copiedOffset !== NO_RECORD && copiedOffset < offset ? copiedOffset : offset;
    const namedPredecessor = offsetFrom(headers[PREDECESSOR_HEADER]) ?? originalOffset;
    // The replaced record usually has a lower offset. After a truncation, it can have a higher offset, because new records get
    // the offsets of lost records.
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

  /** Returns all keys, each with a boolean. The boolean is false if the last record of the key was ignored. */
  lastRecords(): [string, boolean][] {
    return [...this.#byKey].map(([key, { isLast }]) => [key, isLast]);
  }

  /**
   * Returns copies of the valid records that a truncation removed. Omits keys that got a new valid record after the truncation.
   * The caller must append the copies.
   * @param offset the start of the truncation
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

  /** Returns a copy of the key's valid record if a later record of the key was ignored. Otherwise, returns undefined. */
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

function offsetFrom(header: string | undefined): number | undefined {
  if (header === '') return NO_RECORD;
  const offset = Number(header);
  return Number.isSafeInteger(offset) && offset >= 0 ? offset : undefined;
}
