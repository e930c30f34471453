/** What a group's commit says beside its offset, and where it goes on behind a cut. */
import type { Committed } from '../log/log.ts';
import type { CommitMetadata, RecordIdentity } from './findTruncation.ts';

/** Knows also what older versions wrote, which is less. */
export function metadataOf({ offset, metadata }: Committed): CommitMetadata {
  try {
    return { ...(metadata === '' ? {} : JSON.parse(metadata)), offset };
  } catch {
    // A tool that sets offsets may write a text of its own there, which says nothing.
    return { offset };
  }
}

/** The record that a commit names: the last below it or, while a block is announced, the block's last. */
export function lastRecordOf(committed: Committed | undefined): RecordIdentity | undefined {
  return committed && metadataOf(committed).last;
}

/** The UUID of the table whose rows the commit means; undefined where an operator or an older version made it. */
export function tableOf(committed: Committed | undefined): string | undefined {
  return committed && metadataOf(committed).tables;
}

/** No record below the commit is of a newer leader epoch; undefined: not known. */
export function leaderEpochOf(committed: Committed): number | undefined {
  const { last, upToEpoch } = metadataOf(committed);
  return last?.leaderEpoch ?? upToEpoch;
}

/** What is left of a block that was announced is still to be finished. */
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
