/**
 * What a process does when the directory's topic was cut: reads it anew, beside what it knows, and appends what is missing
 * again. A token that was given to a game must go on working, and one that was revoked must stay so.
 */
import type { DirectoryEntry } from '@questlog/schemas/topics/directoryEntry';
import { TOPICS } from '@questlog/schemas/topics/topics';
import type { Log, LogRecord } from '../log/log.ts';
import { Unavailable } from '../process/errors.ts';
import type { Logger } from '../process/logger.ts';
import { retryUntilAvailable } from '../process/waiting.ts';
import { applyEntry, type Directory, emptyDirectory } from './directory.ts';
import { EffectiveRecords } from './effectiveRecords.ts';

export interface RepairedTruncation {
  /** The first offset that was gone. */
  readonly offset: number;
  /** The keys of what was missing, all of them in the log again. */
  readonly missing: readonly string[];
}

/** The directory as the log has it, with what was missing. */
export interface RebuiltDirectory extends RepairedTruncation {
  readonly current: Directory;
  readonly predecessors: EffectiveRecords;
  /** What is below was read. */
  readonly end: number;
  /** The offsets of records that do not count. */
  readonly ineffectiveOffsets: readonly number[];
}

interface DirectoryTruncation {
  /** As of before the cut. */
  readonly before: EffectiveRecords;
  readonly offset: number;
  readonly signal: AbortSignal;
}

interface Deps {
  readonly log: Pick<Log, 'tail' | 'endOffsets' | 'append'>;
  readonly logger: Logger;
  readonly decode: DecodeEntry;
}

/** Returns a record's entry: null for a tombstone, undefined for one that cannot be read. */
export type DecodeEntry = (
  record: LogRecord,
  partition: number,
) => Promise<DirectoryEntry | null | undefined>;

/** Tries until the log can be read and takes what is missing. @throws Unavailable once the signal aborts. */
export async function repairTruncation(
  deps: Deps,
  truncation: DirectoryTruncation,
): Promise<RebuiltDirectory> {
  const { offset, signal } = truncation;
  const fields = { topic: TOPICS.directory, offset };
  const rebuilt = await retryUntilAvailable(() => rebuild(deps, truncation), {
    signal,
    onDelay: (cause, backoffMs) =>
      deps.logger.error('directory_mending_delayed', cause, { ...fields, backoffMs }),
  });
  const keys = rebuilt.missing.slice(0, MAX_LOGGED_KEYS).join(' ');
  deps.logger.warn('directory_cut_short', { ...fields, missing: rebuilt.missing.length, keys });
  return rebuilt;
}

const MAX_LOGGED_KEYS = 20;

async function rebuild(
  { log, decode }: Deps,
  { before, offset, signal }: DirectoryTruncation,
): Promise<RebuiltDirectory> {
  const current = emptyDirectory();
  const predecessors = new EffectiveRecords();
  const ineffectiveOffsets: number[] = [];
  const tail = await log.tail({
    topic: TOPICS.directory,
    from: 'earliest',
    onBatch: async ({ records, partition }) => {
      for (const record of records) {
        const entry = await decode(record, partition);
        if (!predecessors.accept(record)) ineffectiveOffsets.push(record.offset);
        else if (entry !== undefined) applyEntry(current, record.key ?? '', entry);
      }
    },
    onTruncated: () => {
      throw new Unavailable('the log was cut once more while it was read');
    },
  });
  const readTo = (offsets: readonly number[]) =>
    Promise.race([tail.waitForOffsets(offsets, signal), tail.failed]);
  try {
    await readTo(await log.endOffsets(TOPICS.directory));
    const missing = before.missingFrom(predecessors, offset);
    for (const record of missing) {
      const { baseOffset } = await log.append(TOPICS.directory, 0, [record]);
      await readTo([baseOffset + 1]);
    }
    const [end = 0] = tail.positions();
    return {
      current,
      predecessors,
      end,
      offset,
      missing: missing.map(({ key }) => key ?? ''),
      ineffectiveOffsets,
    };
  } finally {
    await tail.close();
  }
}
