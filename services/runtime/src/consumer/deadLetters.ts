/** Sends records that cannot be processed to the dead letters, and stops a consumer that would send nearly all of them. */
import { createHash } from 'node:crypto';
import { deadLetter } from '@questlog/schemas/topics/deadLetter';
import { APPEND_ID_HEADER, TOPICS } from '@questlog/schemas/topics/topics';
import { uuidV8 } from '@questlog/schemas/uuid';
import { recordBytes } from '../log/checkRecords.ts';
import { type Log, type LogRecord, RecordTooLarge } from '../log/log.ts';
import { waitWhileTailMoves } from '../log/waitForTail.ts';
import type { Clock } from '../process/clock.ts';
import type { Invalid } from '../process/errors.ts';
import { messageOf } from '../process/errors.ts';
import type { Logger } from '../process/logger.ts';
import { createCodec, type SchemaRegistry } from '../registry/registry.ts';

/** Those of one partition, as long as it is owned. */
export interface DeadLetters {
  /** @param mayBeSent it was perhaps sent before: then it is looked for first, in all of the dead letters. */
  send(source: SourcePartition, record: LogRecord, cause: Invalid, mayBeSent: boolean): Promise<void>;
  /** A record that was fine, so that the ratio is known. */
  countProcessed(count: number): void;
}

interface SourcePartition {
  readonly topic: string;
  readonly partition: number;
}

const MAX_REASON_CHARACTERS = 2_000;

/** @returns opens those of a partition; once it is lost, as the signal says, nothing is looked for any more. */
export async function openDeadLetters(deps: {
  log: Log;
  registry: SchemaRegistry;
  clock: Clock;
  logger: Logger;
  group: string;
}): Promise<(signal: AbortSignal) => DeadLetters> {
  const { log, clock, logger, group } = deps;
  const codec = await createCodec(deps.registry, deadLetter);
  const partitions = await log.partitionCount(TOPICS.deadLetters);
  const ratio = new DeadLetterRatio();
  const append = async (
    pending: PendingDeadLetter,
    [stored, ...smaller]: readonly LogRecord[],
  ): Promise<void> => {
    if (stored === undefined) return;
    const { appendId, targetPartition, source, record, cause } = pending;
    const { key, headers } = stored;
    const value = codec.encode({
      logId: log.id,
      sourceTopic: source.topic,
      sourcePartition: source.partition,
      sourceOffset: record.offset,
      group,
      reason: reasonOf(cause, recordBytes(record) - recordBytes(stored)),
      key,
      value: stored.value,
      headers,
      deadAt: clock.now(),
    });
    try {
      await log.append(TOPICS.deadLetters, targetPartition, [
        { key, value, headers: { [APPEND_ID_HEADER]: appendId } },
      ]);
    } catch (error) {
      if (!(error instanceof RecordTooLarge) || smaller.length === 0) throw error;
      await append(pending, smaller);
    }
  };
  return (signal) => {
    /** Those that were there when somebody looked. */
    let logIds: Promise<Set<string>> | undefined;
    /** Those that this process has sent, or found: they are counted. */
    const sentIds = new Set<string>();
    const sendOnce = async (pending: PendingDeadLetter, mayBeSent: boolean): Promise<void> => {
      const { appendId, targetPartition, source, record, cause } = pending;
      try {
        if (mayBeSent) {
          logIds ??= appendIdsIn(log, targetPartition, signal);
          if ((await logIds).has(appendId)) return;
        }
        // Not the record itself: what it holds is the players', and may be megabytes.
        logger.error('record_dead_lettered', cause, { ...source, offset: record.offset, group });
        await append(pending, reducedRecords(record));
      } catch (error) {
        // It may be there all the same.
        logIds = undefined;
        throw error;
      }
    };
    return {
      countProcessed: (records) => ratio.countProcessed(records),
      send: async ({ topic, partition }, record, cause, mayBeSent) => {
        const source = { topic, partition };
        const appendId = appendIdOf(log.id, group, source, record.offset);
        if (mayBeSent && sentIds.has(appendId)) return;
        const pending = { appendId, targetPartition: partition % partitions, source, record, cause };
        const ratioExceeded = `${group}: most of ${topic} cannot be processed; stopped before it is emptied into the dead letters`;
        await ratio.countSent(
          () => sendOnce(pending, mayBeSent),
          () => new Error(ratioExceeded, { cause }),
        );
        remember(sentIds, appendId);
      },
    };
  };
}

interface PendingDeadLetter {
  readonly appendId: string;
  /** The partition of the dead letters. */
  readonly targetPartition: number;
  readonly source: SourcePartition;
  readonly record: LogRecord;
  readonly cause: Invalid;
}

/** Only over this many records does a ratio mean anything. */
const WINDOW_RECORDS = 1_000;
const MAX_DEAD_RATIO = 0.5;

/** How many of a group's records are dead, of late. */
class DeadLetterRatio {
  #processed = 0;
  #deadLettered = 0;
  /** Letters on their way: each counts once it is in its place, or a try that fails would count as a letter. */
  #sending = 0;

  countProcessed(records: number): void {
    [this.#processed, this.#deadLettered] = this.#with(records, 0);
  }

  /** @throws what `tooMany` gives, before the letter is sent with which the dead are too many. */
  async countSent(send: () => Promise<void>, ratioExceeded: () => Error): Promise<void> {
    this.#sending += 1;
    try {
      // Before the window is halved: its last record may have been fine.
      const [seen, dead] = [this.#processed + this.#sending, this.#deadLettered + this.#sending];
      if (seen >= WINDOW_RECORDS && dead / seen > MAX_DEAD_RATIO) throw ratioExceeded();
      await send();
      [this.#processed, this.#deadLettered] = this.#with(1, 1);
    } finally {
      this.#sending -= 1;
    }
  }

  #with(records: number, dead: number): [seen: number, dead: number] {
    const share = this.#processed >= WINDOW_RECORDS ? 0.5 : 1;
    return [this.#processed * share + records, this.#deadLettered * share + dead];
  }
}

/** What a letter may keep of a record: all of it, unless the log refuses that. Its place says where it stands. */
function reducedRecords(record: LogRecord): LogRecord[] {
  const bare = { ...record, value: null, headers: {} };
  return [record, bare, { ...bare, key: null }];
}

/** About 100 bytes each. */
const MAX_CACHED_IDS = 100_000;
/** There may be many, and a broker may be slow: all of them may take longer. */
const STALL_LIMIT_MS = 30_000;

/** The newest letters of a partition. @throws Unavailable when none comes for a while, or the signal aborts. */
async function appendIdsIn(log: Log, partition: number, signal: AbortSignal): Promise<Set<string>> {
  const end = await log.endOffset(TOPICS.deadLetters, partition);
  const ids = new Set<string>();
  const tail = await log.tail({
    topic: TOPICS.deadLetters,
    from: 'earliest',
    partitions: [partition],
    onBatch: ({ records }) => {
      for (const { headers } of records) {
        const id = headers[APPEND_ID_HEADER];
        if (id !== undefined) remember(ids, id);
      }
    },
  });
  try {
    const ends = tail.positions().map((_, p) => (p === partition ? end : 0));
    const message = 'the dead letters cannot be read';
    await waitWhileTailMoves(tail, ends, { limitMs: STALL_LIMIT_MS, message, signal });
  } finally {
    await tail.close();
  }
  return ids;
}

function remember(ids: Set<string>, id: string): void {
  ids.add(id);
  const [oldest] = ids;
  if (ids.size > MAX_CACHED_IDS && oldest !== undefined) ids.delete(oldest);
}

function reasonOf(cause: Invalid, omittedBytes: number): string {
  const detail = cause.cause === undefined ? '' : `: ${messageOf(cause.cause)}`;
  const reason = `${cause.message}${detail}`.slice(0, MAX_REASON_CHARACTERS);
  if (omittedBytes === 0) return reason;
  return `${reason}; its ${omittedBytes} bytes are not kept here: it stands at its source as long as its topic keeps it`;
}

function appendIdOf(logId: string, group: string, source: SourcePartition, offset: number): string {
  const name = `${logId} ${group} ${source.topic} ${source.partition} ${offset}`;
  return uuidV8(createHash('sha256').update(name).digest());
}
