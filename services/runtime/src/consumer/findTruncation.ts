/** Tells whether a log still holds what a group has written from it, and if it was cut, where. */
import { type Log, type LogRecord, LogTruncated, type OffsetRange, type OwnedPartition } from '../log/log.ts';
import { Unavailable } from '../process/errors.ts';

/** What a group writes beside its offset. */
export interface CommitMetadata {
  /** The next offset. */
  readonly offset: number;
  /** First offset behind the block that is being written; undefined: none is. */
  readonly pendingTo?: number;
  /**
   * The last record of that block or, without one, below the offset: by it a log is found out that was cut and has grown
   * again, when no offset tells. Undefined: none was read yet.
   */
  readonly last?: RecordIdentity;
  /** Behind a cut, where no last record is known: none below the offset is of a newer leader epoch. */
  readonly upToEpoch?: number;
  /** Names the tables that have the rows. */
  readonly tables?: string;
}

/** Tells a record from any other that gets its offset. */
export interface RecordIdentity {
  readonly offset: number;
  readonly id: string;
  readonly leaderEpoch?: number;
}

/** What the tables hold of the records of one partition. */
export interface StoredRows {
  /** Whether there are rows of records at or behind the offset of which a second one would be a second thing. */
  hasRowsFrom(offset: number): Promise<boolean>;
  /** The row of the highest offset, if that is above the given one. */
  highestRow(above: number): Promise<StoredRow | undefined>;
  /** The row whose offset is nearest to `about`, above one bound and below the other. */
  nearestRow(between: { above: number; below: number; about: number }): Promise<StoredRow | undefined>;
  /** What rows of the record may be named. */
  rowNamesOf(record: LogRecord): Promise<readonly string[]>;
  /** The repair that was begun and is not known to be done. */
  unfinishedRepair(): Promise<Truncation | undefined>;
  /**
   * Takes the rows from the cut on out of the way of the records that get their offsets now; they stay visible. Done
   * again it ends the same. @returns how many records the log has lost.
   *
   * @param confirm awaited right before each change, as a writer's.
   */
  repair(cut: Truncation, confirm: () => Promise<void>): Promise<number>;
  /** Notes that it is done, and that the group goes on at the cut. */
  markRepaired(cut: Truncation): Promise<void>;
}

export interface StoredRow {
  readonly offset: number;
  readonly name: string;
}

export interface Truncation {
  /** The first offset that is not known to hold what it storedRows. */
  readonly offset: number;
  /** First offset behind what is gone. */
  readonly end: number;
  /** Names what was there last: another cut at the same offset is another one. */
  readonly lost: string;
}

export interface TruncationDeps {
  readonly log: Pick<Log, 'offsetRanges' | 'endOffset'>;
  readonly owned: OwnedPartition;
  readonly topic: string;
  readonly storedRows: StoredRows;
  /** A proof's id. */
  recordIdOf(record: LogRecord): string;
}

/**
 * Compares the last record of what was written with the log and, where they differ, walks back by what the tables hold.
 * Moves the position. Offsets of which the tables hold nothing count as cut: what was dropped there once is so again.
 *
 * @param truncatedFrom an offset from which on the log itself says that it holds something else.
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
  /** Up to here the log is what it was. */
  let same = proof === 'same' && last !== undefined ? last.offset : -1;
  const highest = await storedRows.highestRow(same);
  const isHighestSame = highest === undefined || (await compareRow(highest)) !== 'other';
  if (proof !== 'other' && isHighestSame && processedTo <= truncatedFrom) return undefined;

  const range = await offsetRangeOf(log, topic, owned.partition);
  same = Math.max(same, range.startOffset - 1);
  // What is behind the end need not be waited for.
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

/** Asks where the log ends only if nothing comes. */
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
  // Compaction has removed it, or only a marker is there.
  return 'removed';
}

const READ_WAIT_MS = 1_000;
