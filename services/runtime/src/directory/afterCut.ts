/**
 * What a process does when the directory's topic was cut: reads it anew, beside what it knows, and appends what is missing
 * again. A token that was given to a game must go on working, and one that was revoked must stay so.
 */
import type { DirectoryEntry } from '@questlog/schemas/topics/directoryEntry';
import { TOPICS } from '@questlog/schemas/topics/topics';
import type { Log, LogRecord } from '../log/log.ts';
import { Unavailable } from '../process/errors.ts';
import type { Logger } from '../process/logger.ts';
import { untilAvailable } from '../process/waiting.ts';
import { applyEntry, type Directory, emptyDirectory } from './directory.ts';
import { Predecessors } from './predecessors.ts';

export interface CutDirectory {
  /** The first offset that was gone. */
  readonly offset: number;
  /** The keys of what was missing, all of them in the log again. */
  readonly missing: readonly string[];
}

/** The directory as the log has it, with what was missing. */
export interface ReadAnew extends CutDirectory {
  readonly current: Directory;
  readonly predecessors: Predecessors;
  /** What is below was read. */
  readonly end: number;
  /** The offsets of records that do not count. */
  readonly uncounted: readonly number[];
}

interface Cut {
  /** As of before the cut. */
  readonly known: Predecessors;
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
export async function untilMended(deps: Deps, cut: Cut): Promise<ReadAnew> {
  const { offset, signal } = cut;
  const where = { topic: TOPICS.directory, offset };
  const read = await untilAvailable(() => readAnew(deps, cut), {
    signal,
    onDelay: (cause, backoffMs) =>
      deps.logger.error('directory_mending_delayed', cause, { ...where, backoffMs }),
  });
  const keys = read.missing.slice(0, MAX_TOLD).join(' ');
  deps.logger.warn('directory_cut_short', { ...where, missing: read.missing.length, keys });
  return read;
}

const MAX_TOLD = 20;

async function readAnew({ log, decode }: Deps, { known, offset, signal }: Cut): Promise<ReadAnew> {
  const current = emptyDirectory();
  const predecessors = new Predecessors();
  const uncounted: number[] = [];
  const tail = await log.tail({
    topic: TOPICS.directory,
    from: 'earliest',
    onBatch: async ({ records, partition }) => {
      for (const record of records) {
        const entry = await decode(record, partition);
        if (!predecessors.accept(record)) uncounted.push(record.offset);
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
    const lost = known.lostTo(predecessors, offset);
    for (const record of lost) {
      const { baseOffset } = await log.append(TOPICS.directory, 0, [record]);
      await readTo([baseOffset + 1]);
    }
    const [end = 0] = tail.positions();
    return { current, predecessors, end, offset, missing: lost.map(({ key }) => key ?? ''), uncounted };
  } finally {
    await tail.close();
  }
}
