/** Sends records that cannot be processed to the dead letters, and stops a consumer that would send nearly all of them. */
import { createHash } from 'node:crypto';
import { deadLetter } from '@questlog/schemas/topics/deadLetter';
import { APPEND_ID_HEADER, TOPICS } from '@questlog/schemas/topics/topics';
import { uuidV8 } from '@questlog/schemas/uuid';
import type { Log, LogRecord } from '../log/log.ts';
import type { Clock } from '../process/clock.ts';
import type { Invalid } from '../process/errors.ts';
import { messageOf } from '../process/errors.ts';
import type { Logger } from '../process/logger.ts';
import { createCodec, type SchemaRegistry } from '../registry/registry.ts';

export interface DeadLetters {
  /** A repeat carries the same append id, so that a reader of the topic can drop it. */
  send(source: { topic: string; partition: number }, record: LogRecord, cause: Invalid): Promise<void>;
  /** A record that was fine, so that the ratio is known. */
  passed(count: number): void;
}

/** Only over this many records does a ratio mean anything. */
const WINDOW_RECORDS = 1_000;
const MAX_DEAD_RATIO = 0.5;
const MAX_REASON_CHARACTERS = 2_000;

export async function openDeadLetters(deps: {
  log: Log;
  registry: SchemaRegistry;
  clock: Clock;
  logger: Logger;
  group: string;
}): Promise<DeadLetters> {
  const { log, clock, logger, group } = deps;
  const codec = await createCodec(deps.registry, deadLetter);
  const partitions = (await log.endOffsets(TOPICS.deadLetters)).length;
  let seen = 0;
  let dead = 0;
  const count = (records: number, deadRecords: number): void => {
    if (seen >= WINDOW_RECORDS) {
      seen /= 2;
      dead /= 2;
    }
    seen += records;
    dead += deadRecords;
  };
  return {
    passed: (records) => count(records, 0),
    send: async (source, record, cause) => {
      count(1, 1);
      if (seen >= WINDOW_RECORDS && dead / seen > MAX_DEAD_RATIO) {
        throw new Error(
          `${group}: most of ${source.topic} cannot be processed; stopped before it is emptied into the dead letters`,
          { cause },
        );
      }
      // Not the record itself: what it holds is the players', and may be megabytes.
      const { topic, partition } = source;
      logger.error('record_dead_lettered', cause, { topic, partition, offset: record.offset, group });
      const value = codec.encode({
        logId: log.id,
        sourceTopic: source.topic,
        sourcePartition: source.partition,
        sourceOffset: record.offset,
        group,
        reason: reasonOf(cause),
        key: record.key,
        value: record.value,
        headers: record.headers,
        deadAt: clock.now(),
      });
      const headers = { [APPEND_ID_HEADER]: appendIdOf(log.id, group, source, record.offset) };
      await log.append(TOPICS.deadLetters, source.partition % partitions, [
        { key: record.key, value, headers },
      ]);
    },
  };
}

function reasonOf(cause: Invalid): string {
  const because = cause.cause === undefined ? '' : `: ${messageOf(cause.cause)}`;
  return `${cause.message}${because}`.slice(0, MAX_REASON_CHARACTERS);
}

function appendIdOf(
  logId: string,
  group: string,
  source: { topic: string; partition: number },
  offset: number,
): string {
  const name = `${logId} ${group} ${source.topic} ${source.partition} ${offset}`;
  return uuidV8(createHash('sha256').update(name).digest());
}
