/**
 * Decides which records of the directory's topic are effective, because two processes can change the same entity at the same
 * time. Only effective records change the directory. Each record has a header with the offset of its predecessor. The
 * predecessor is the record that was effective for the key when the process appended the new record. For each key, the record
 * with the highest predecessor offset is effective. If several records have the same predecessor, the record with the lowest
 * offset is effective. The key of a deleted entity is never used again, because a new record needs the tombstone as its
 * predecessor, and compaction can remove the tombstone.
 */
import type { Headers, LogRecord, NewRecord } from '../log/log.ts';

/**
 * Header with the offset of the earlier record that the new record replaces. In the first record of a key, the header is
 * present but empty. A record that lacks the header always takes effect.
 */
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
   * For each key, the record that is in force. A deleted key keeps its tombstone here, because the record of a concurrent
   * change can arrive after the tombstone.
   */
  readonly #byKey = new Map<string, EffectiveRecord>();

  /** Returns the headers of a new record. The headers contain the offset of the key's record that is now in force. */
  headersFor(key: string): Headers {
    return { [PREDECESSOR_HEADER]: headerOf(this.#byKey.get(key)?.offset ?? NO_RECORD) };
  }

  /** Processes the next record of the topic. Returns false if the record is ignored because another record is in force. */
  accept({ key, value, offset, headers }: Omit<LogRecord, 'timestampMs'>): boolean {
    if (key === null) return true;
    const effective = this.#byKey.get(key);
    const copiedOffset = offsetFrom(headers[COPY_OF_HEADER]) ?? NO_RECORD;
    // The original record has a lower offset than its copy. The code ignores a copy's header that contains a higher offset,
    // because later changes of the key would otherwise have no effect.
    const originalOffset = copiedOffset !== NO_RECORD && copiedOffset < offset ? copiedOffset : offset;
    const namedPredecessor = offsetFrom(headers[PREDECESSOR_HEADER]) ?? originalOffset;
    // A record's offset is below the predecessor's offset only if a truncation removed the predecessor from the log.
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

  /** Returns each key with a boolean. The boolean is true if the last record of the key is in force. */
  lastRecords(): [string, boolean][] {
    return [...this.#byKey].map(([key, { isLast }]) => [key, isLast]);
  }

  /**
   * Returns copies of the records that were in force before a truncation and were lost. The caller must append the copies.
   * @param current the records that are in force in the truncated log.
   * @param offset the start of the truncation. A key with a record in `current` at or above this offset is not restored.
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

  /**
   * Returns a copy of the key's effective record if a later record of the key was ignored because of a concurrent change.
   * Returns undefined if the effective record is the last record of the key.
   */
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
