/** Lists, inspects, replays, and discards dead letters. Replays and discards are stored in the dead-letter topic. */
import { isUtf8 } from 'node:buffer';
import type { NewestFirstPage } from '@questlog/runtime/http/core/newestFirst';
import { pathUuid, Rejected } from '@questlog/runtime/http/rejected';
import { type Log, type LogRecord, RecordTooLarge, type Tail } from '@questlog/runtime/log/log';
import { waitForTail } from '@questlog/runtime/log/waitForTail';
import { Invalid, Unavailable } from '@questlog/runtime/process/errors';
import { KeyedMutex } from '@questlog/runtime/process/keyedMutex';
import { coalesceCalls, retry, withinLimit, yieldToEventLoop } from '@questlog/runtime/process/waiting';
import { type Codec, createCodec } from '@questlog/runtime/registry/registry';
import type {
  DeadLetterPage,
  InspectedDeadLetter,
  ReplayedDeadLetter,
} from '@questlog/schemas/http/deadLetter';
import { partitionOf } from '@questlog/schemas/partition';
import { type DeadLetter, deadLetter } from '@questlog/schemas/topics/deadLetter';
import {
  APPEND_ID_HEADER,
  DEAD_LETTER_ID_HEADER,
  DECISION_HEADER,
  TOPICS,
} from '@questlog/schemas/topics/topics';
import { canonicalUuid } from '@questlog/schemas/uuid';
import type { Visibility } from '@questlog/schemas/visibility';
import type { OperationsContext } from '../context.ts';
import {
  type DeadLetterDecision,
  type DeadLetterFilters,
  DeadLetterIndex,
  type IndexedDeadLetter,
  listedDeadLetter,
} from './deadLetterIndex.ts';
import { type DeadLetterRecord, openDeadLetterRecords } from './deadLetterRecords.ts';

type DeadLetterContext = Pick<
  OperationsContext,
  'log' | 'registry' | 'logger' | 'metrics' | 'health' | 'visible'
>;

/** All methods throw Rejected for invalid requests, and Unavailable if reading the dead-letter topic takes too long. */
export interface DeadLetterAdmin {
  page(filters: DeadLetterFilters, page: NewestFirstPage): Promise<DeadLetterPage>;
  /** @throws Rejected `not_found` if the dead letter is unknown or if all its data is erased */
  inspect(id: string): Promise<InspectedDeadLetter>;
  replay(id: string): Promise<ReplayedDeadLetter>;
  discard(id: string): Promise<void>;
  /** Discards the dead letters whose data is completely erased. Returns the number of discarded dead letters. */
  discardHidden(visibility: Visibility): Promise<number>;
  /** Returns the records of all dead letters of a topic, including replayed and discarded dead letters. */
  valuesOf(topic: string): Promise<(Buffer | null)[]>;
  close(): Promise<void>;
}

type DecidedState = DeadLetterDecision['state'];

const TOPIC = TOPICS.deadLetters;
const READ_LIMIT = { limitMs: 5_000, message: 'the dead letters were not read to their end in time' };
const MAX_SHOWN_BYTES = 1024 * 1024;
const MAX_RAW_BYTES = 64 * 1024;
const MAX_KEY_CHARACTERS = 200;
const MAX_REASON_CHARACTERS = 300;

export async function openDeadLetterAdmin(context: DeadLetterContext): Promise<DeadLetterAdmin> {
  const { log, registry, logger } = context;
  const codec = await createCodec(registry, deadLetter);
  const records = await openDeadLetterRecords(registry);
  const view = new DeadLetterView(context, codec);
  const mutex = new KeyedMutex();

  const find = async (idText: string) => {
    const id = pathUuid(idText);
    const index = await view.caughtUp();
    const entry = index.find(id);
    if (entry === undefined) throw new Rejected('not_found', `there is no dead letter ${id}`);
    return entry;
  };
  const readMessage = async ({ id, position }: IndexedDeadLetter): Promise<DeadLetter> => {
    const record = await recordAt(log, position);
    if (record?.headers[APPEND_ID_HEADER] !== id)
      throw new Rejected('not_found', `the dead letter ${id} has expired`);
    return await codec.decode(record.value);
  };
  const decide = async ({ id, position }: IndexedDeadLetter, state: DecidedState): Promise<void> => {
    const headers = { [DEAD_LETTER_ID_HEADER]: id, [DECISION_HEADER]: state };
    await log.append(TOPIC, position.partition, [{ key: null, value: null, headers }]);
    logger.info('dead_letter_decided', { id, decision: state });
  };
  return {
    page: async (filters, page) => {
      const index = await view.caughtUp();
      const { rows, next } = index.page(filters, page);
      return { deadLetters: [...rows], next, open: index.open().length };
    },
    inspect: async (id) => {
      const entry = await find(id);
      const message = await readMessage(entry.deadLetter);
      const record = await records.read(await context.visible.latest(), message);
      if (record.state === 'hidden')
        throw new Rejected('not_found', `the data of dead letter ${entry.deadLetter.id} was erased`);
      const { key, reason, headers } = message;
      const shown = { key, reason, headers: { ...headers }, ...shownValue(record, message) };
      return { ...listedDeadLetter(entry), ...shown };
    },
    replay: async (id) =>
      await mutex.run(pathUuid(id), async () => {
        const { deadLetter, decision } = await find(id);
        if (decision !== undefined) throw alreadyDecided(deadLetter, decision);
        const message = await readMessage(deadLetter);
        const isReplayable = records.isReplayable(message.sourceTopic);
        const position = await appendToSource(log, deadLetter.id, message, isReplayable);
        await decide(deadLetter, 'replayed');
        return { id: deadLetter.id, ...position };
      }),
    discard: async (id) =>
      await mutex.run(pathUuid(id), async () => {
        const { deadLetter, decision } = await find(id);
        if (decision?.state === 'replayed') throw alreadyDecided(deadLetter, decision);
        if (decision === undefined) await decide(deadLetter, 'discarded');
      }),
    discardHidden: async (visibility) => {
      let discarded = 0;
      for await (const [deadLetter, message] of readMessages((await view.caughtUp()).open(), readMessage)) {
        if ((await records.read(visibility, message)).state !== 'hidden') continue;
        await decide(deadLetter, 'discarded');
        discarded += 1;
      }
      return discarded;
    },
    valuesOf: async (topic) =>
      await valuesIn(readMessages((await view.caughtUp()).ofTopic(topic), readMessage)),
    close: () => view.close(),
  };
}

async function* readMessages(
  deadLetters: readonly IndexedDeadLetter[],
  readMessage: (deadLetter: IndexedDeadLetter) => Promise<DeadLetter>,
): AsyncGenerator<[IndexedDeadLetter, DeadLetter]> {
  for (const deadLetter of deadLetters) {
    const message = await readMessage(deadLetter).catch(undefinedIfExpired);
    if (message !== undefined) yield [deadLetter, message];
  }
}

async function valuesIn(
  deadLetters: AsyncIterable<[IndexedDeadLetter, DeadLetter]>,
): Promise<(Buffer | null)[]> {
  const values: (Buffer | null)[] = [];
  for await (const [, message] of deadLetters) values.push(message.value);
  return values;
}

function undefinedIfExpired(error: unknown): undefined {
  if (!(error instanceof Rejected && error.code === 'not_found')) throw error;
}

function alreadyDecided({ id }: IndexedDeadLetter, { state, atMs }: DeadLetterDecision): Rejected {
  return new Rejected('already_decided', `dead letter ${id} was ${state} at ${new Date(atMs).toISOString()}`);
}

/**
 * Appends the record unchanged to its original partition. If this partition does not exist, the hash of the record's key
 * selects a partition. A header marks the record as a replay, so that the linker creates no second link.
 */
async function appendToSource(
  log: Log,
  id: string,
  { sourceTopic: topic, sourcePartition, key, value, headers, reason }: DeadLetter,
  isReplayable: boolean,
): Promise<Omit<ReplayedDeadLetter, 'id'>> {
  if (!isReplayable) throw new Rejected('not_replayable', `records of topic ${topic} cannot be replayed`);
  if (value === null) throw new Rejected('not_replayable', `the dead letter has no value: ${reason}`);
  if (sourcePartition < 0)
    throw new Rejected('not_replayable', `${topic} has no partition ${sourcePartition}`);
  const partitions = await log.partitionCount(topic);
  const partition = sourcePartition < partitions ? sourcePartition : partitionOf(key ?? '', 0, partitions);
  try {
    const replayed = { key, value, headers: { ...headers, [DEAD_LETTER_ID_HEADER]: id } };
    const { baseOffset } = await log.append(topic, partition, [replayed]);
    return { topic, partition, offset: baseOffset };
  } catch (error) {
    if (!(error instanceof RecordTooLarge)) throw error;
    throw new Rejected('not_replayable', error.message, { cause: error });
  }
}

function shownValue(
  record: DeadLetterRecord,
  { value }: DeadLetter,
): Pick<InspectedDeadLetter, 'value' | 'valueBase64'> {
  if (value === null) return {};
  const isReadable = record.state === 'read';
  if (isReadable && value.length <= MAX_SHOWN_BYTES) return { value: toJson(record.message) };
  // Omits the raw bytes if a part of the record is erased, because the raw bytes still contain the erased data.
  if (isReadable && !record.isUnchanged) return {};
  return { valueBase64: value.subarray(0, MAX_RAW_BYTES).toString('base64') };
}

function toJson(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value);
  if (Buffer.isBuffer(value)) return value.toString(isUtf8(value) ? 'utf8' : 'base64');
  if (Array.isArray(value)) return value.map(toJson);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, toJson(field)]));
}

async function recordAt(
  log: Log,
  { partition, offset }: IndexedDeadLetter['position'],
): Promise<LogRecord | undefined> {
  const { promise, resolve } = Promise.withResolvers<LogRecord | undefined>();
  const partitions = await log.partitionCount(TOPIC);
  const tail = await log.tail({
    topic: TOPIC,
    from: Array(partitions).fill(offset),
    partitions: [partition],
    onBatch: ({ records, nextOffset }) => {
      const record = records.find((one) => one.offset === offset);
      if (record !== undefined || nextOffset > offset) resolve(record);
    },
  });
  try {
    return await withinLimit(Promise.race([promise, tail.failed]), READ_LIMIT.limitMs, () => {
      throw new Unavailable('the dead letter cannot be read');
    });
  } finally {
    await tail.close();
  }
}

class DeadLetterView {
  readonly #context: DeadLetterContext;
  readonly #codec: Codec<DeadLetter>;
  readonly #stopped = new AbortController();
  readonly #open: () => Promise<void>;
  #index = new DeadLetterIndex();
  #tail: Tail | undefined;

  constructor(context: DeadLetterContext, codec: Codec<DeadLetter>) {
    this.#context = context;
    this.#codec = codec;
    this.#open = coalesceCalls(() => this.#follow());
    context.health.warn('dead_letters', () => openWarning(this.#index));
    const keepOpen = async (): Promise<void> => {
      await this.#open();
      await this.#tail?.failed;
    };
    const options = {
      signal: this.#stopped.signal,
      isRetryable: () => true,
      onDelay: (cause: Error) => this.#failed(cause),
    };
    // Rejects only after `close`.
    retry(keepOpen, options).catch(() => undefined);
  }

  async caughtUp(): Promise<DeadLetterIndex> {
    const { log } = this.#context;
    await this.#open();
    const [starts, ends] = await Promise.all([log.startOffsets(TOPIC), log.endOffsets(TOPIC)]);
    if (this.#tail === undefined) throw new Unavailable(READ_LIMIT.message);
    await waitForTail(this.#tail, ends, READ_LIMIT);
    this.#index.expire(starts);
    this.#setGauges(this.#index);
    return this.#index;
  }

  async close(): Promise<void> {
    this.#stopped.abort();
    await this.#tail?.close();
  }

  async #follow(): Promise<void> {
    if (this.#tail !== undefined || this.#stopped.signal.aborted) return;
    const index = new DeadLetterIndex();
    const tail = await this.#context.log.tail({
      topic: TOPIC,
      from: 'earliest',
      onTruncated: (range) => index.onTruncated(range),
      onBatch: async ({ partition, records }) => {
        for (const record of records) await this.#apply(index, partition, record);
        this.#setGauges(index);
      },
    });
    [this.#index, this.#tail] = [index, tail];
    this.#setGauges(index);
    // Discards the failed reader. A new reader reads the dead-letter topic from its start. Until the new reader has
    // read the topic, the metric has no values, because an alert fires if the metric is missing.
    tail.failed.catch(() => {
      this.#tail = undefined;
      this.#context.metrics.deadLettersOpen.reset();
    });
    if (this.#stopped.signal.aborted) await tail.close();
  }

  #failed(error: unknown): void {
    if (this.#stopped.signal.aborted) return;
    this.#context.logger.error('dead_letters_unread', error, { bug: !(error instanceof Unavailable) });
  }

  async #apply(index: DeadLetterIndex, partition: number, record: LogRecord): Promise<void> {
    const { offset, headers, value, timestampMs: atMs } = record;
    const state = headers[DECISION_HEADER];
    if (state === 'replayed' || state === 'discarded')
      return index.decide(headers[DEAD_LETTER_ID_HEADER] ?? '', { state, atMs, offset });
    const id = canonicalUuid(headers[APPEND_ID_HEADER] ?? '');
    if (id === undefined || value === null) return;
    await yieldToEventLoop();
    try {
      const options = { signal: this.#stopped.signal, onDelay: (cause: Error) => this.#failed(cause) };
      const deadLetter = await retry(() => this.#codec.decode(value), options);
      index.put(indexedDeadLetter(id, deadLetter, { partition, offset }));
    } catch (error) {
      if (!(error instanceof Invalid)) throw error;
    }
  }

  #setGauges(index: DeadLetterIndex): void {
    for (const [group, open] of index.openByGroup())
      this.#context.metrics.deadLettersOpen.set({ group }, open);
  }
}

/** Warns about dead letters without a decision. Does not wait for the log, because readiness checks must be fast. */
function openWarning(index: DeadLetterIndex): string | undefined {
  const open = index.open().length;
  return open === 0 ? undefined : `${open} dead letters are open: run "questlog dead-letters list"`;
}

function indexedDeadLetter(
  id: string,
  deadLetter: DeadLetter,
  position: IndexedDeadLetter['position'],
): IndexedDeadLetter {
  const { key, value } = deadLetter;
  return {
    ...{ id, position, deadAtMs: deadLetter.deadAt },
    group: prefixOf(deadLetter.group, MAX_KEY_CHARACTERS),
    topic: prefixOf(deadLetter.sourceTopic, MAX_KEY_CHARACTERS),
    ...{ partition: deadLetter.sourcePartition, offset: deadLetter.sourceOffset },
    valueBytes: value === null ? null : value.length,
    key: key === null ? null : prefixOf(key, MAX_KEY_CHARACTERS),
    reason: prefixOf(deadLetter.reason, MAX_REASON_CHARACTERS),
  };
}

/** Copies the first characters, because a JavaScript substring would keep the whole string in memory. */
function prefixOf(text: string, characters: number): string {
  return Buffer.from(text.slice(0, characters)).toString();
}
