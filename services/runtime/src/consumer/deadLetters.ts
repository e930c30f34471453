/** Appends unprocessable records to the dead letters. Stops a consumer if most of its records would become dead letters. */
import { createHash } from 'node:crypto';
import { deadLetter } from '@questlog/schemas/topics/deadLetter';
import { APPEND_ID_HEADER, TOPICS } from '@questlog/schemas/topics/topics';
import { uuidV8 } from '@questlog/schemas/uuid';
import { recordBytes } from '../log/checkRecords.ts';
import { type Log, type LogRecord, RecordTooLarge } from '../log/log.ts';
import { waitWhileTailMoves } from '../log/waitForTail.ts';
import { BoundedMap } from '../process/boundedMap.ts';
import type { Clock } from '../process/clock.ts';
import type { Invalid } from '../process/errors.ts';
import { messageOf } from '../process/errors.ts';
import type { Logger } from '../process/logger.ts';
import { createCodec, type SchemaRegistry } from '../registry/registry.ts';

export interface DeadLetters {
  /** Appends a dead letter. @param mayBeSent true if the topic must be searched for the dead letter before the append. */
  send(source: SourcePartition, record: LogRecord, cause: Invalid, mayBeSent: boolean): Promise<void>;
  countProcessed(count: number): void;
}

interface SourcePartition {
  readonly topic: string;
  readonly partition: number;
}

const MAX_REASON_CHARACTERS = 2_000;

/**
 * Returns a function that creates a dead-letter writer for one partition. The caller must abort the writer's signal when the
 * process loses the partition.
 */
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
    let logIds: Promise<AppendIds> | undefined;
    const sentIds: AppendIds = new BoundedMap(MAX_CACHED_IDS);
    const sendOnce = async (pending: PendingDeadLetter, mayBeSent: boolean): Promise<void> => {
      const { appendId, targetPartition, source, record, cause } = pending;
      try {
        if (mayBeSent) {
          logIds ??= appendIdsIn(log, targetPartition, signal);
          if ((await logIds).has(appendId)) return;
        }
        // Logs only the position of the record, because the record contains players' data.
        logger.error('record_dead_lettered', cause, { ...source, offset: record.offset, group });
        await append(pending, reducedRecords(record));
      } catch (error) {
        // An append that returns an error can still have stored the dead letter, so the next attempt must search the topic.
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
        const ratioExceeded = `${group} stopped: more than half of the recent records of ${topic} cannot be processed`;
        await ratio.countSent(
          () => sendOnce(pending, mayBeSent),
          () => new Error(ratioExceeded, { cause }),
        );
        sentIds.set(appendId, true);
      },
    };
  };
}

interface PendingDeadLetter {
  readonly appendId: string;
  readonly targetPartition: number;
  readonly source: SourcePartition;
  readonly record: LogRecord;
  readonly cause: Invalid;
}

const WINDOW_RECORDS = 1_000;
const MAX_DEAD_RATIO = 0.5;

class DeadLetterRatio {
  #processed = 0;
  #deadLettered = 0;
  #sending = 0;

  countProcessed(records: number): void {
    [this.#processed, this.#deadLettered] = this.#with(records, 0);
  }

  /** Calls `send` and counts the dead letter. @throws the error of `ratioExceeded` if too many records are dead letters. */
  async countSent(send: () => Promise<void>, ratioExceeded: () => Error): Promise<void> {
    this.#sending += 1;
    try {
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

function reducedRecords(record: LogRecord): LogRecord[] {
  const bare = { ...record, value: null, headers: {} };
  return [record, bare, { ...bare, key: null }];
}

type AppendIds = BoundedMap<string, true>;
const MAX_CACHED_IDS = 100_000;
const STALL_LIMIT_MS = 30_000;

/** Reads the ids in the headers of a partition's newest dead letters. @throws Unavailable if the read makes no progress. */
async function appendIdsIn(log: Log, partition: number, signal: AbortSignal): Promise<AppendIds> {
  const end = await log.endOffset(TOPICS.deadLetters, partition);
  const ids: AppendIds = new BoundedMap(MAX_CACHED_IDS);
  const tail = await log.tail({
    topic: TOPICS.deadLetters,
    from: 'earliest',
    partitions: [partition],
    onBatch: ({ records }) => {
      for (const { headers } of records) {
        const id = headers[APPEND_ID_HEADER];
        if (id !== undefined) ids.set(id, true);
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

function reasonOf(cause: Invalid, omittedBytes: number): string {
  const detail = cause.cause === undefined ? '' : `: ${messageOf(cause.cause)}`;
  const reason = `${cause.message}${detail}`.slice(0, MAX_REASON_CHARACTERS);
  if (omittedBytes === 0) return reason;
  return `${reason}; ${omittedBytes} bytes were omitted: the source topic keeps the record until it expires`;
}

function appendIdOf(logId: string, group: string, source: SourcePartition, offset: number): string {
  const name = `${logId} ${group} ${source.topic} ${source.partition} ${offset}`;
  return uuidV8(createHash('sha256').update(name).digest());
}
