/** Detects that the log has lost records after their rows were written to ClickHouse. */
import { Unavailable } from '../../process/errors.ts';
import { type Log, type LogRecord, LogTruncated, type OffsetRange, type OwnedPartition } from '../log.ts';
import { type CommitMetadata, recordIdOf } from '../projection/commitMetadata.ts';

export interface StoredRows {
  /** Returns true if rows of records at or above the offset are stored. A second insert of the rows would create duplicates. */
  hasRowsFrom(offset: number): Promise<boolean>;
  /** Returns the stored row with the highest offset, if this offset is greater than `above`. */
  highestRow(above: number): Promise<StoredRow | undefined>;
  nearestRow(between: { above: number; below: number; about: number }): Promise<StoredRow | undefined>;
  rowNamesOf(record: LogRecord): Promise<readonly string[]>;
  /** Returns the truncation whose repair was started and not completed. Undefined if every repair is complete. */
  unfinishedRepair(): Promise<Truncation | undefined>;
  /**
   * Gives the rows of lost records another log id, so that they do not collide with rows of new records at the same offsets.
   * Returns the number of lost records.
   * @param confirm a function to call and await immediately before each change.
   */
  repair(truncation: Truncation, confirm: () => Promise<void>): Promise<number>;
  markRepaired(truncation: Truncation): Promise<void>;
}

export interface StoredRow {
  readonly offset: number;
  readonly name: string;
}

export interface Truncation {
  /** First offset whose record can be different after the truncation. */
  readonly offset: number;
  readonly end: number;
  /** Id of the last lost record. If this id is unknown, the `name` of the stored row with the highest offset. */
  readonly lost: string;
}

export interface TruncationDeps {
  readonly log: Pick<Log, 'offsetRanges' | 'endOffset'>;
  readonly owned: OwnedPartition;
  readonly topic: string;
  readonly storedRows: StoredRows;
}

/**
 * Finds the last record that is unchanged in the log. For this, compares the log with the last committed record and with the
 * stored rows. The comparison changes the read position.
 *
 * All later records count as truncated, even if some of them are unchanged and have no rows. This is safe, because processing a
 * record again adds no rows.
 * @returns undefined if the log is not truncated
 * @param truncatedFrom the offset of a truncation that the log has reported. Infinity if the log has reported no truncation.
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
  const proof = last && (await compare(last.offset, (record) => recordIdOf(record) === last.id));
  /** Highest offset at which the log and the stored rows have the same record. */
  let same = proof === 'same' && last !== undefined ? last.offset : -1;
  const highest = await storedRows.highestRow(same);
  const isHighestSame = highest === undefined || (await compareRow(highest)) !== 'other';
  if (proof !== 'other' && isHighestSame && processedTo <= truncatedFrom) return undefined;

  const range = await offsetRangeOf(log, topic, owned.partition);
  same = Math.max(same, range.startOffset - 1);
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

interface RereadRecords {
  readonly topic: string;
  readonly partition: number;
  readonly records: readonly LogRecord[];
  readonly start: number;
  readonly end: number;
}

/**
 * Detects a truncation that happened after `findTruncation`. New records reuse the offsets of lost records, so a reader that
 * has not reached these offsets gets no error. Therefore, this function compares the stored row of the highest offset with the
 * record at the same offset.
 * @throws LogTruncated if the row belongs to a lost record
 */
export async function checkStoredRows(
  storedRows: Pick<StoredRows, 'nearestRow' | 'rowNamesOf'>,
  { topic, partition, records, start, end }: RereadRecords,
): Promise<void> {
  const row = await storedRows.nearestRow({ above: start - 1, below: end, about: end });
  if (row === undefined) return;
  const record = records.find(({ offset }) => offset === row.offset);
  if (record === undefined) return;
  if ((await storedRows.rowNamesOf(record)).includes(row.name)) return;
  throw new LogTruncated({ topic, partition, offset: row.offset, position: end });
}

export async function offsetRangeOf(
  log: Pick<Log, 'offsetRanges'>,
  topic: string,
  partition: number,
): Promise<OffsetRange> {
  const range = (await log.offsetRanges(topic))[partition];
  if (range === undefined) throw new Unavailable(`${topic}/${partition} has no leader`);
  return range;
}

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
  // No record has this offset: either compaction removed the record, or the offset belongs to a transaction marker.
  return 'removed';
}

const READ_WAIT_MS = 1_000;
