/** What a group's commit says beside its offset, and where it goes on behind a cut. */
import type { Committed } from '../log/log.ts';
import type { Note, Proof } from './findCut.ts';

/** Knows also what older versions wrote, which is less. */
export function noteOf({ offset, metadata }: Committed): Note {
  try {
    return { ...(metadata === '' ? {} : JSON.parse(metadata)), offset };
  } catch {
    // A tool that sets offsets may write a text of its own there, which says nothing.
    return { offset };
  }
}

/** The record that a commit names: the last below it or, while a block is announced, the block's last. */
export function lastRecordOf(committed: Committed | undefined): Proof | undefined {
  return committed && noteOf(committed).last;
}

/** The UUID of the table whose rows the commit means; undefined where an operator or an older version made it. */
export function tableOf(committed: Committed | undefined): string | undefined {
  return committed && noteOf(committed).tables;
}

/** No record below the commit is of a newer leader epoch; undefined: not known. */
export function leaderEpochOf(committed: Committed): number | undefined {
  const { last, upToEpoch } = noteOf(committed);
  return last?.leaderEpoch ?? upToEpoch;
}

/** What is left of a block that was announced is still to be finished. */
export function goOnAt({ offset, pendingTo, last, upToEpoch = last?.leaderEpoch }: Note, cut: number): Note {
  const known = upToEpoch === undefined ? {} : { upToEpoch };
  if (cut <= offset) return { offset: cut, ...known };
  return pendingTo === undefined
    ? { offset, ...known }
    : { offset, pendingTo: Math.min(cut, pendingTo), ...known };
}
