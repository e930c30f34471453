/** Checks whether the log still contains the records that a consumer group has written, and finds the offset of a truncation. */
import { type Log, type LogRecord, LogTruncated, type OffsetRange, type OwnedPartition } from '../log/log.ts';
import { Unavailable } from '../process/errors.ts';

/** Decoded commit of a consumer group for one partition. */
export interface CommitMetadata {
  /** Next offset to process. */
  readonly offset: number;
  /** Offset after the pending block, which is being written. Undefined if no block is pending. */
  readonly pendingTo?: number;
  /**
   * Last record of the pending block or, without a pending block, the last record below `offset`. This record reveals a
   * truncated log that has grown again, which offsets alone cannot reveal. Undefined if the group has not read a record.
   */
  readonly last?: RecordIdentity;
  /** Leader epoch that no record below `offset` exceeds. Set after a truncation, when the last record is unknown. */
  readonly upToEpoch?: number;
  /** Id of the ClickHouse tables that contain the rows. */
  readonly tables?: string;
}

/** Identity of a record, which distinguishes the record from any other record at the same offset. */
export interface RecordIdentity {
  readonly offset: number;
  readonly id: string;
  readonly leaderEpoch?: number;
}

/** Rows in ClickHouse that come from the records of one partition. */
export interface StoredRows {
  /** Returns true if records at or above the offset have rows. A second insert of these rows would create duplicates. */
  hasRowsFrom(offset: number): Promise<boolean>;
  /** Returns the row with the highest offset above `above`. Undefined if no row has such an offset. */
  highestRow(above: number): Promise<StoredRow | undefined>;
  /** Returns the row whose offset is nearest to `about`, and is between `above` and `below`. */
  nearestRow(between: { above: number; below: number; about: number }): Promise<StoredRow | undefined>;
  /** Returns the names that the rows of the record can have. */
  rowNamesOf(record: LogRecord): Promise<readonly string[]>;
  /** Returns the truncation whose repair has started but is not complete. Undefined if there is no such repair. */
  unfinishedRepair(): Promise<Truncation | undefined>;
  /**
   * Marks the rows at and above the truncation as orphaned, so that they do not collide with new records at the same offsets.
   * Orphaned rows stay visible. A repeated repair has the same result.
   * @param confirm a function that must be awaited directly before each change.
   * @returns the number of records that the log lost.
   */
  repair(truncation: Truncation, confirm: () => Promise<void>): Promise<number>;
  /** Stores that the repair is complete and that the group resumes at the offset of the truncation. */
  markRepaired(truncation: Truncation): Promise<void>;
}

export interface StoredRow {
  readonly offset: number;
  readonly name: string;
}

export interface Truncation {
  /** First offset at which the record may have changed. */
  readonly offset: number;
  /** Offset after the last lost record. */
  readonly end: number;
  /** Name of the last lost record. The name distinguishes truncations at the same offset. */
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
 * Compares the last written record with the log. If the record differs, searches the stored rows for the last unchanged
 * record. All offsets after this record count as truncated, even the offsets of unchanged records without rows. Processing such
 * records again adds no rows. The search changes the read position of the partition.
 * @param truncatedFrom the offset from which the log itself reports a truncation.
 * @returns undefined if the log is not truncated.
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
  /** Highest offset up to which the log is unchanged, as far as the comparisons show. */
  let same = proof === 'same' && last !== undefined ? last.offset : -1;
  const highest = await storedRows.highestRow(same);
  const isHighestSame = highest === undefined || (await compareRow(highest)) !== 'other';
  if (proof !== 'other' && isHighestSame && processedTo <= truncatedFrom) return undefined;

  const range = await offsetRangeOf(log, topic, owned.partition);
  same = Math.max(same, range.startOffset - 1);
  // The log has no records at or above its end offset, so the search starts below this offset.
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

/** Returns the offset range of a partition. @throws Unavailable while the partition has no leader. */
export async function offsetRangeOf(
  log: Pick<Log, 'offsetRanges'>,
  topic: string,
  partition: number,
): Promise<OffsetRange> {
  const range = (await log.offsetRanges(topic))[partition];
  if (range === undefined) throw new Unavailable(`${topic}/${partition} has no leader`);
  return range;
}

/** Reads the record at an offset. Requests the log's end offset only if no record arrives. */
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
  // The offset has no record: compaction removed the record, or the offset belongs to a transaction marker.
  return 'removed';
}

const READ_WAIT_MS = 1_000;
