/** Reads the metadata of a group's commit and computes the commit after a truncation. */
import type { Committed } from '../log/log.ts';
import type { CommitMetadata, RecordIdentity } from './findTruncation.ts';

/** Decodes a commit. Commits of older versions have fewer fields. */
export function metadataOf({ offset, metadata }: Committed): CommitMetadata {
  try {
    return { ...(metadata === '' ? {} : JSON.parse(metadata)), offset };
  } catch {
    // A tool that sets offsets can write any text.
    return { offset };
  }
}

/** Returns the last record of the pending block or, without a pending block, the last record below the offset. */
export function lastRecordOf(committed: Committed | undefined): RecordIdentity | undefined {
  return committed && metadataOf(committed).last;
}

/** Returns the UUID of the table with the rows. Undefined for a commit of an operator or an older version. */
export function tableOf(committed: Committed | undefined): string | undefined {
  return committed && metadataOf(committed).tables;
}

/** Returns a leader epoch that no record below the commit exceeds. Undefined if it is unknown. */
export function leaderEpochOf(committed: Committed): number | undefined {
  const { last, upToEpoch } = metadataOf(committed);
  return last?.leaderEpoch ?? upToEpoch;
}

/** Returns the commit with which the group resumes after a truncation. Keeps the pending block up to the truncation. */
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
