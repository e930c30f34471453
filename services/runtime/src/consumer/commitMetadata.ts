/** Reads the metadata of a group's commit, and computes the commit with which the group resumes after a truncation. */
import type { Committed } from '../log/log.ts';
import type { CommitMetadata, RecordIdentity } from './findTruncation.ts';

/** Decodes a commit. The commits of older versions have fewer fields. */
export function metadataOf({ offset, metadata }: Committed): CommitMetadata {
  try {
    return { ...(metadata === '' ? {} : JSON.parse(metadata)), offset };
  } catch {
    // The metadata can be any text if a tool has set the offsets.
    return { offset };
  }
}

/** Returns the last record of the pending block or, without a pending block, the last record below the committed offset. */
export function lastRecordOf(committed: Committed | undefined): RecordIdentity | undefined {
  return committed && metadataOf(committed).last;
}

/** Returns the id of the tables that contain the rows. Undefined if an operator or an older version wrote the commit. */
export function tableOf(committed: Committed | undefined): string | undefined {
  return committed && metadataOf(committed).tables;
}

/** Returns a leader epoch that no record below the committed offset exceeds. Undefined if no such epoch is known. */
export function leaderEpochOf(committed: Committed): number | undefined {
  const { last, upToEpoch } = metadataOf(committed);
  return last?.leaderEpoch ?? upToEpoch;
}

/** Returns the commit with which the group resumes after a truncation. A pending block stays pending up to the truncation. */
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
