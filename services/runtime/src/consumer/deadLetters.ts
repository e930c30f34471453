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
  /** @param mayBeThere it was perhaps sent before: then it is looked for first, in all of the dead letters. */
  send(source: Place, record: LogRecord, cause: Invalid, mayBeThere: boolean): Promise<void>;
  /** A record that was fine, so that the ratio is known. */
  passed(count: number): void;
}

interface Place {
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
  const ratio = new DeadRatio();
  const append = async (letter: Letter, [kept, ...less]: readonly LogRecord[]): Promise<void> => {
    if (kept === undefined) return;
    const { appendId, to, source, record, cause } = letter;
    const { key, headers } = kept;
    const value = codec.encode({
      logId: log.id,
      sourceTopic: source.topic,
      sourcePartition: source.partition,
      sourceOffset: record.offset,
      group,
      reason: reasonOf(cause, recordBytes(record) - recordBytes(kept)),
      key,
      value: kept.value,
      headers,
      deadAt: clock.now(),
    });
    try {
      await log.append(TOPICS.deadLetters, to, [{ key, value, headers: { [APPEND_ID_HEADER]: appendId } }]);
    } catch (error) {
      if (!(error instanceof RecordTooLarge) || less.length === 0) throw error;
      await append(letter, less);
    }
  };
  return (signal) => {
    /** Those that were there when somebody looked. */
    let known: Promise<Set<string>> | undefined;
    /** Those that this process has sent, or found: they are counted. */
    const there = new Set<string>();
    const sendUnlessThere = async (letter: Letter, mayBeThere: boolean): Promise<void> => {
      const { appendId, to, source, record, cause } = letter;
      try {
        if (mayBeThere) {
          known ??= appendIdsIn(log, to, signal);
          if ((await known).has(appendId)) return;
        }
        // Not the record itself: what it holds is the players', and may be megabytes.
        logger.error('record_dead_lettered', cause, { ...source, offset: record.offset, group });
        await append(letter, keepingLess(record));
      } catch (error) {
        // It may be there all the same.
        known = undefined;
        throw error;
      }
    };
    return {
      passed: (records) => ratio.passed(records),
      send: async ({ topic, partition }, record, cause, mayBeThere) => {
        const source = { topic, partition };
        const appendId = appendIdOf(log.id, group, source, record.offset);
        if (mayBeThere && there.has(appendId)) return;
        const letter = { appendId, to: partition % partitions, source, record, cause };
        const tooMany = `${group}: most of ${topic} cannot be processed; stopped before it is emptied into the dead letters`;
        await ratio.count(
          () => sendUnlessThere(letter, mayBeThere),
          () => new Error(tooMany, { cause }),
        );
        remember(there, appendId);
      },
    };
  };
}

interface Letter {
  readonly appendId: string;
  /** The partition of the dead letters. */
  readonly to: number;
  readonly source: Place;
  readonly record: LogRecord;
  readonly cause: Invalid;
}

/** Only over this many records does a ratio mean anything. */
const WINDOW_RECORDS = 1_000;
const MAX_DEAD_RATIO = 0.5;

/** How many of a group's records are dead, of late. */
class DeadRatio {
  #seen = 0;
  #dead = 0;
  /** Letters on their way: each counts once it is in its place, or a try that fails would count as a letter. */
  #underWay = 0;

  passed(records: number): void {
    [this.#seen, this.#dead] = this.#with(records, 0);
  }

  /** @throws what `tooMany` gives, before the letter is sent with which the dead are too many. */
  async count(send: () => Promise<void>, tooMany: () => Error): Promise<void> {
    this.#underWay += 1;
    try {
      // Before the window is halved: its last record may have been fine.
      const [seen, dead] = [this.#seen + this.#underWay, this.#dead + this.#underWay];
      if (seen >= WINDOW_RECORDS && dead / seen > MAX_DEAD_RATIO) throw tooMany();
      await send();
      [this.#seen, this.#dead] = this.#with(1, 1);
    } finally {
      this.#underWay -= 1;
    }
  }

  #with(records: number, dead: number): [seen: number, dead: number] {
    const share = this.#seen >= WINDOW_RECORDS ? 0.5 : 1;
    return [this.#seen * share + records, this.#dead * share + dead];
  }
}

/** What a letter may keep of a record: all of it, unless the log refuses that. Its place says where it stands. */
function keepingLess(record: LogRecord): LogRecord[] {
  const bare = { ...record, value: null, headers: {} };
  return [record, bare, { ...bare, key: null }];
}

/** About 100 bytes each. */
const MAX_KNOWN_LETTERS = 100_000;
/** There may be many, and a broker may be slow: all of them may take longer. */
const STILL_LIMIT_MS = 30_000;

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
    await waitWhileTailMoves(tail, ends, { limitMs: STILL_LIMIT_MS, message, signal });
  } finally {
    await tail.close();
  }
  return ids;
}

function remember(ids: Set<string>, id: string): void {
  ids.add(id);
  const [oldest] = ids;
  if (ids.size > MAX_KNOWN_LETTERS && oldest !== undefined) ids.delete(oldest);
}

function reasonOf(cause: Invalid, missingBytes: number): string {
  const because = cause.cause === undefined ? '' : `: ${messageOf(cause.cause)}`;
  const reason = `${cause.message}${because}`.slice(0, MAX_REASON_CHARACTERS);
  if (missingBytes === 0) return reason;
  return `${reason}; its ${missingBytes} bytes are not kept here: it stands at its source as long as its topic keeps it`;
}

function appendIdOf(logId: string, group: string, source: Place, offset: number): string {
  const name = `${logId} ${group} ${source.topic} ${source.partition} ${offset}`;
  return uuidV8(createHash('sha256').update(name).digest());
}
