/** Finds out whether the log still contains the records that a group has written, and where it was truncated. */
import { type Log, type LogRecord, LogTruncated, type OffsetRange, type OwnedPartition } from '../log/log.ts';
import { Unavailable } from '../process/errors.ts';

/** A group's commit, decoded. */
export interface CommitMetadata {
  /** Next offset to process. */
  readonly offset: number;
  /** Offset after the block that is being written. Undefined if no block is pending. */
  readonly pendingTo?: number;
  /**
   * Last record of the pending block or, without one, below the offset. It reveals a truncated log that has grown
   * again, which offsets cannot show. Undefined if no record was read yet.
   */
  readonly last?: RecordIdentity;
  /** After a truncation, where no last record is known: no record below the offset has a newer leader epoch. */
  readonly upToEpoch?: number;
  /** Id of the tables that contain the rows. */
  readonly tables?: string;
}

/** Distinguishes a record from any other record at the same offset. */
export interface RecordIdentity {
  readonly offset: number;
  readonly id: string;
  readonly leaderEpoch?: number;
}

/** Rows in ClickHouse of the records of one partition. */
export interface StoredRows {
  /** Returns true if there are rows of records at or above the offset whose second insert would be a duplicate. */
  hasRowsFrom(offset: number): Promise<boolean>;
  /** Returns the row with the highest offset, if that offset is above `above`. */
  highestRow(above: number): Promise<StoredRow | undefined>;
  /** Returns the row between the bounds whose offset is nearest to `about`. */
  nearestRow(between: { above: number; below: number; about: number }): Promise<StoredRow | undefined>;
  /** Returns the names that rows of the record can have. */
  rowNamesOf(record: LogRecord): Promise<readonly string[]>;
  /** Returns the truncation whose repair was started and not completed. */
  unfinishedRepair(): Promise<Truncation | undefined>;
  /**
   * Marks the rows at and above the truncation as orphaned, so that they do not collide with new records at these
   * offsets. The rows stay visible. A repeated repair has the same result.
   * @param confirm must be awaited directly before each change.
   * @returns number of records that the log lost.
   */
  repair(truncation: Truncation, confirm: () => Promise<void>): Promise<number>;
  /** Records that the repair is complete and that the group resumes at the truncation. */
  markRepaired(truncation: Truncation): Promise<void>;
}

export interface StoredRow {
  readonly offset: number;
  readonly name: string;
}

export interface Truncation {
  /** First offset whose record may have changed. */
  readonly offset: number;
  /** Offset after the last lost record. */
  readonly end: number;
  /** Name of the last lost record. It distinguishes truncations at the same offset. */
  readonly lost: string;
}

export interface TruncationDeps {
  readonly log: Pick<Log, 'offsetRanges' | 'endOffset'>;
  readonly owned: OwnedPartition;
  readonly topic: string;
  readonly storedRows: StoredRows;
  recordIdOf(record: LogRecord): string;
}

/**
 * Compares the last written record with the log. If they differ, searches the stored rows for the last unchanged
 * record. Moves the position of the partition. Offsets without rows count as truncated, because their records are
 * dropped again.
 * @param truncatedFrom offset from which the log itself reports a truncation.
 */
export async function findTruncation(
  deps: TruncationDeps,
  committed: CommitMetadata,
  truncatedFrom = Infinity,
): Promise<Truncation | undefined> {
  const { log, owned, topic, storedRows } = deps;
  const compare = async (at: number, isExpected: (record: LogRecord) => boolean | Promise<boolean>) => {
    const record = at < truncatedFrom ? await recordAt(deps, at) : 'beyond';
    if (record === 'removed') return record;
    return record !== 'beyond' && (await isExpected(record)) ? 'same' : 'other';
  };
  const compareRow = ({ offset, name }: StoredRow) =>
    compare(offset, async (record) => (await storedRows.rowNamesOf(record)).includes(name));

  const { offset, pendingTo: processedTo = offset, last } = committed;
  const proof = last && (await compare(last.offset, (record) => deps.recordIdOf(record) === last.id));
  /** Highest offset at which the log is known to be unchanged. */
  let same = proof === 'same' && last !== undefined ? last.offset : -1;
  const highest = await storedRows.highestRow(same);
  const isHighestSame = highest === undefined || (await compareRow(highest)) !== 'other';
  if (proof !== 'other' && isHighestSame && processedTo <= truncatedFrom) return undefined;

  const range = await offsetRangeOf(log, topic, owned.partition);
  same = Math.max(same, range.startOffset - 1);
  // Records after the end of the log need no comparison.
  let other = Math.min(truncatedFrom, range.endOffset);
  for (let about = other; ; about = Math.floor((same + other) / 2)) {
    const row = await storedRows.nearestRow({ above: same, below: other, about });
    if (row === undefined) break;
    if ((await compareRow(row)) === 'other') other = row.offset;
    else same = row.offset;
  }
  return {
    offset: same + 1,
    end: Math.max(processedTo, (highest?.offset ?? -1) + 1),
    lost: last?.id ?? highest?.name ?? '',
  };
}

/** @throws Unavailable while the partition has no leader. */
export async function offsetRangeOf(
  log: Pick<Log, 'offsetRanges'>,
  topic: string,
  partition: number,
): Promise<OffsetRange> {
  const range = (await log.offsetRanges(topic))[partition];
  if (range === undefined) throw new Unavailable(`${topic}/${partition} has no leader`);
  return range;
}

/** Reads the record at an offset. Requests the end of the log only if no record arrives. */
async function recordAt(
  { log, owned, topic }: TruncationDeps,
  offset: number,
): Promise<LogRecord | 'removed' | 'beyond'> {
  owned.seek(topic, offset);
  while (owned.position(topic) <= offset) {
    owned.signal.throwIfAborted();
    try {
      const batch = await owned.read({ topic, maxRecords: 1, maxBytes: 1, waitMs: READ_WAIT_MS });
      const record = batch?.records[0];
      if (record !== undefined) return record.offset === offset ? record : 'removed';
      if (batch === undefined && offset >= (await log.endOffset(topic, owned.partition))) return 'beyond';
    } catch (error) {
      if (error instanceof LogTruncated && error.offset <= offset) return 'beyond';
      throw error;
    }
  }
  // Compaction removed the record, or the offset has a transaction marker.
  return 'removed';
}

const READ_WAIT_MS = 1_000;
