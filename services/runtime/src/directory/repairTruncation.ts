/**
 * Repairs a truncation of the directory topic, which stores tenants, projects, and tokens. Each process compares the topic with
 * the records in memory and appends the lost records. Valid tokens stay valid, and revoked tokens stay revoked.
 */
import type { DirectoryEntry } from '@questlog/schemas/topics/directoryEntry';
import { TOPICS } from '@questlog/schemas/topics/topics';
import type { Log, LogRecord } from '../log/log.ts';
import { Unavailable } from '../process/errors.ts';
import type { Logger } from '../process/logger.ts';
import { retry } from '../process/waiting.ts';
import { applyEntry, type Directory, emptyDirectory } from './directory.ts';
import { EffectiveRecords } from './effectiveRecords.ts';

export interface RepairedTruncation {
  readonly offset: number;
  /** Keys of the lost records, which the repair appended again. */
  readonly missing: readonly string[];
}

export interface RebuiltDirectory extends RepairedTruncation {
  readonly current: Directory;
  readonly predecessors: EffectiveRecords;
  readonly end: number;
  readonly ineffectiveOffsets: readonly number[];
}

interface DirectoryTruncation {
  readonly before: EffectiveRecords;
  readonly offset: number;
  readonly signal: AbortSignal;
}

type DirectoryLog = Pick<Log, 'tail' | 'endOffsets' | 'append'>;

/** Decodes a record. Returns null for a tombstone. Returns undefined if the record cannot be decoded. */
export type DecodeEntry = (
  record: LogRecord,
  partition: number,
) => Promise<DirectoryEntry | null | undefined>;

/** Repairs a truncation by appending the lost records. Retries while the log is unavailable. @throws Unavailable if aborted. */
export async function repairTruncation(
  log: DirectoryLog,
  decode: DecodeEntry,
  truncation: DirectoryTruncation,
  logger: Logger,
): Promise<RebuiltDirectory> {
  const { offset, signal } = truncation;
  const fields = { topic: TOPICS.directory, offset };
  const rebuilt = await retry(() => rebuild(log, decode, truncation), {
    signal,
    onDelay: (cause, backoffMs) => logger.error('directory_mending_delayed', cause, { ...fields, backoffMs }),
  });
  const keys = rebuilt.missing.slice(0, MAX_LOGGED_KEYS).join(' ');
  logger.warn('directory_cut_short', { ...fields, missing: rebuilt.missing.length, keys });
  return rebuilt;
}

const MAX_LOGGED_KEYS = 20;

async function rebuild(
  log: DirectoryLog,
  decode: DecodeEntry,
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
      throw new Unavailable('the log was truncated again while it was read');
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
