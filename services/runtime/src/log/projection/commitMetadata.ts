/**
 * Decodes the commits of a consumer group that writes blocks of rows to ClickHouse. Also computes the commit from which the
 * group continues after a truncation of the log.
 */
import { createHash } from 'node:crypto';
import { APPEND_ID_HEADER } from '@questlog/schemas/topics/topics';
import type { Committed, LogRecord } from '../log.ts';

export interface CommitMetadata {
  readonly offset: number;
  /** Offset after the block that is being written. Undefined if all rows below `offset` are stored. */
  readonly pendingTo?: number;
  /**
   * `start` if the deduplication token of the block that is being written contains only the start of the block. Undefined in
   * commits of older versions, whose deduplication tokens also contain the end of the block.
   */
  readonly token?: 'start';
  /**
   * Last record of the block that is being written or, if no block is being written, the last record below `offset`. The log
   * was truncated if it now has a different record at the offset of this last record.
   */
  readonly last?: RecordIdentity;
  /** Highest leader epoch that a record below `offset` can have. The field is used only if `last` has no leader epoch. */
  readonly upToEpoch?: number;
  /** Id of the set of ClickHouse tables into which the consumer group writes rows. */
  readonly tables?: string;
  /** ClickHouse shard into which the consumer group inserts rows. Undefined if ClickHouse is not a cluster. */
  readonly shard?: string;
}

export interface RecordIdentity {
  readonly offset: number;
  readonly id: string;
  readonly leaderEpoch?: number;
}

/** Decodes the metadata of an offset commit that this or an older version of Questlog wrote. */
export function metadataOf({ offset, metadata }: Committed): CommitMetadata {
  try {
    return { ...(metadata === '' ? {} : JSON.parse(metadata)), offset };
  } catch {
    // If an operator has set the offsets with a tool, the metadata of the commit can be any text.
    return { offset };
  }
}

/** Returns the last record of the block that is being written. Without such a block, the record before the committed offset. */
export function lastRecordOf(committed: Committed | undefined): RecordIdentity | undefined {
  return committed && metadataOf(committed).last;
}

/** Returns the id in a commit that identifies the ClickHouse tables. A commit that an operator made contains no such id. */
export function tableOf(committed: Committed | undefined): string | undefined {
  return committed && metadataOf(committed).tables;
}

/** Returns the highest leader epoch that a record below the committed offset can have. */
export function leaderEpochOf(committed: Committed): number | undefined {
  const { last, upToEpoch } = metadataOf(committed);
  return last?.leaderEpoch ?? upToEpoch;
}

/**
 * Returns the commit from which the consumer group continues after a truncation. No offset in the commit is higher than the
 * start of the truncation. If the group had started to write a block, ClickHouse can already have some rows of the block.
 * Therefore, the commit keeps the part of this block that is before the truncation.
 */
export function resumeAt(
  { offset, pendingTo, last, upToEpoch = last?.leaderEpoch }: CommitMetadata,
  truncatedFrom: number,
): CommitMetadata {
  const known = upToEpoch === undefined ? {} : { upToEpoch };
  if (truncatedFrom <= offset) return { offset: truncatedFrom, ...known };
  return pendingTo === undefined
    ? { offset, ...known }
    : { offset, pendingTo: Math.min(truncatedFrom, pendingTo), ...known };
}

/** Maximum length of a record id in a commit. A digest replaces a longer id, because Kafka limits the size of a commit. */
const MAX_ID_CHARACTERS = 64;

/** Returns the append id of a record. Without an append id, or if the id is too long, returns a digest of its key and value. */
export function recordIdOf({ key, value, headers }: LogRecord): string {
  const appendId = headers[APPEND_ID_HEADER];
  if (appendId !== undefined && appendId.length <= MAX_ID_CHARACTERS) return appendId;
  const digest = createHash('sha256').update(`${key?.length} ${key}`);
  return digest.update(value ?? '').digest('base64url');
}
