/**
 * What operators do with dead letters: list, inspect, replay once, discard. A decision is a record behind its letter in the
 * same topic, so that every ingest knows of it, and it expires no sooner. Each ingest follows the topic.
 */
import { isUtf8 } from 'node:buffer';
import type { Erased } from '@questlog/runtime/consumer/serviceDeps';
import { type Log, type LogRecord, RecordTooLarge, type Tail } from '@questlog/runtime/log/log';
import { waitForTail } from '@questlog/runtime/log/waitForTail';
import { Invalid, Unavailable } from '@questlog/runtime/process/errors';
import type { Health } from '@questlog/runtime/process/health';
import type { Logger } from '@questlog/runtime/process/logger';
import { nextRound, nextTurn, untilAvailable, withinLimit } from '@questlog/runtime/process/waiting';
import { type Codec, createCodec, type SchemaRegistry } from '@questlog/runtime/registry/registry';
import type { ErasedData } from '@questlog/schemas/erased';
import type { InspectedLetter, LetterPage, ReplayedLetter } from '@questlog/schemas/http/letter';
import { partitionOf } from '@questlog/schemas/partition';
import { type DeadLetter, deadLetter } from '@questlog/schemas/topics/deadLetter';
import { APPEND_ID_HEADER, DECISION_HEADER, LETTER_ID_HEADER, TOPICS } from '@questlog/schemas/topics/topics';
import { canonicalUuid } from '@questlog/schemas/uuid';
import type { NewestFirstPage } from '../core/newestFirst.ts';
import { KeyedMutex } from '../known/keyedMutex.ts';
import type { IngestMetrics } from '../metrics.ts';
import { pathUuid, Rejected } from '../rejected.ts';
import {
  type KnownLetter,
  type LetterDecision,
  type LetterFilters,
  LetterMemory,
  listedLetter,
} from './letterMemory.ts';
import { type LetterRecord, openLetterRecords } from './letterRecords.ts';

export interface LetterDeps {
  readonly log: Log;
  readonly registry: SchemaRegistry;
  readonly logger: Logger;
  readonly metrics: Pick<IngestMetrics, 'deadLettersOpen'>;
  readonly health: Pick<Health, 'warn'>;
  readonly erased: Pick<Erased, 'all'>;
}

/** Each takes the id as the path has it. @throws Rejected; Unavailable while the topic is not read to its end. */
export interface Letters {
  page(filters: LetterFilters, page: NewestFirstPage): Promise<LetterPage>;
  /** Without what was erased. @throws Rejected `not_found` also where that is all of it. */
  inspect(id: string): Promise<InspectedLetter>;
  replay(id: string): Promise<ReplayedLetter>;
  discard(id: string): Promise<void>;
  /** Discards the open ones that hold nothing else, whoever wrote their records, with whichever key. @returns how many. */
  discardErased(erased: ErasedData): Promise<number>;
  /** Returns the values of the records of one topic that are dead letters, including replayed and discarded ones. */
  valuesOf(topic: string): Promise<(Buffer | null)[]>;
  close(): Promise<void>;
}

const TOPIC = TOPICS.deadLetters;
/** Somebody waits for the answer. */
const READ_WITHIN = { limitMs: 5_000, message: 'the dead letters have not been read yet' };
/** Decoded and shown as its schema reads it. */
const MAX_SHOWN_BYTES = 1024 * 1024;
const MAX_RAW_BYTES = 64 * 1024;
const MAX_KEY_CHARACTERS = 200;
const MAX_REASON_CHARACTERS = 300;

/** Begins to read; nobody waits for that until somebody asks. */
export async function openLetters(deps: LetterDeps): Promise<Letters> {
  const { log, registry, logger } = deps;
  const codec = await createCodec(registry, deadLetter);
  const records = await openLetterRecords(registry);
  const view = new LetterView(deps, codec);
  /** Both of two replays would append the record, which counts once; but only one of them is answered so. */
  const turns = new KeyedMutex();

  const found = async (idText: string) => {
    const id = pathUuid(idText);
    const memory = await view.caughtUp();
    const entry = memory.find(id);
    if (entry === undefined) throw new Rejected('not_found', `there is no dead letter ${id}`);
    return entry;
  };
  const whole = async ({ id, place }: KnownLetter): Promise<DeadLetter> => {
    const record = await recordAt(log, place);
    if (record?.headers[APPEND_ID_HEADER] !== id)
      throw new Rejected('not_found', `the log has no longer the dead letter ${id}`);
    return await codec.decode(record.value);
  };
  const decide = async ({ id, place }: KnownLetter, state: LetterDecision['state']): Promise<void> => {
    const headers = { [LETTER_ID_HEADER]: id, [DECISION_HEADER]: state };
    await log.append(TOPIC, place.partition, [{ key: null, value: null, headers }]);
    logger.info('dead_letter_decided', { id, decision: state });
  };
  return {
    page: async (filters, page) => {
      const memory = await view.caughtUp();
      const { rows, next } = memory.page(filters, page);
      return { deadLetters: [...rows], next, open: openIn(memory) };
    },
    inspect: async (id) => {
      const entry = await found(id);
      const dead = await whole(entry.letter);
      const record = await records.read(await deps.erased.all(), dead);
      if (record.state === 'erased')
        throw new Rejected('not_found', `what the dead letter ${entry.letter.id} held was erased`);
      const { key, reason, headers } = dead;
      return { ...listedLetter(entry), key, reason, headers: { ...headers }, ...shownValue(record, dead) };
    },
    replay: async (id) =>
      await turns.run(pathUuid(id), async () => {
        const { letter, decision } = await found(id);
        if (decision !== undefined) throw decided(letter, decision);
        const dead = await whole(letter);
        const place = await appendAgain(log, letter.id, dead, records.isOurs(dead.sourceTopic));
        await decide(letter, 'replayed');
        return { id: letter.id, ...place };
      }),
    discard: async (id) =>
      await turns.run(pathUuid(id), async () => {
        const { letter, decision } = await found(id);
        if (decision?.state === 'replayed') throw decided(letter, decision);
        if (decision === undefined) await decide(letter, 'discarded');
      }),
    discardErased: async (erased) => {
      let discarded = 0;
      for await (const [letter, dead] of lettersThere((await view.caughtUp()).open(), whole)) {
        if ((await records.read(erased, dead)).state !== 'erased') continue;
        await decide(letter, 'discarded');
        discarded += 1;
      }
      return discarded;
    },
    valuesOf: async (topic) => await valuesIn(lettersThere((await view.caughtUp()).ofTopic(topic), whole)),
    close: () => view.close(),
  };
}

/** Reads dead letters one by one. Skips dead letters that have expired since they were listed. */
async function* lettersThere(
  letters: readonly KnownLetter[],
  whole: (letter: KnownLetter) => Promise<DeadLetter>,
): AsyncGenerator<[KnownLetter, DeadLetter]> {
  for (const letter of letters) {
    const dead = await whole(letter).catch(undefinedIfGone);
    if (dead !== undefined) yield [letter, dead];
  }
}

async function valuesIn(letters: AsyncIterable<[KnownLetter, DeadLetter]>): Promise<(Buffer | null)[]> {
  const values: (Buffer | null)[] = [];
  for await (const [, dead] of letters) values.push(dead.value);
  return values;
}

/** It has expired since it was listed. */
function undefinedIfGone(error: unknown): undefined {
  if (!(error instanceof Rejected && error.code === 'not_found')) throw error;
}

function decided({ id }: KnownLetter, { state, atMs }: LetterDecision): Rejected {
  return new Rejected('already_decided', `dead letter ${id} was ${state} at ${new Date(atMs).toISOString()}`);
}

/**
 * As it was, to where it stood: a tenant's records may lie at any of its lanes. From a partition that somebody added, to the
 * home of its key. The header tells the linker to look for what it may have linked before.
 */
async function appendAgain(
  log: Log,
  id: string,
  { sourceTopic: topic, sourcePartition, key, value, headers, reason }: DeadLetter,
  isOurs: boolean,
): Promise<Omit<ReplayedLetter, 'id'>> {
  if (!isOurs) throw new Rejected('not_replayable', `${topic} is no topic whose records are replayed`);
  if (value === null) throw new Rejected('not_replayable', `it is not kept here: ${reason}`);
  if (sourcePartition < 0)
    throw new Rejected('not_replayable', `${topic} has no partition ${sourcePartition}`);
  const partitions = await log.partitionCount(topic);
  const partition = sourcePartition < partitions ? sourcePartition : partitionOf(key ?? '', 0, partitions);
  try {
    const again = { key, value, headers: { ...headers, [LETTER_ID_HEADER]: id } };
    const { baseOffset } = await log.append(topic, partition, [again]);
    return { topic, partition, offset: baseOffset };
  } catch (error) {
    if (!(error instanceof RecordTooLarge)) throw error;
    throw new Rejected('not_replayable', error.message, { cause: error });
  }
}

function shownValue(
  record: LetterRecord,
  { value }: DeadLetter,
): Pick<InspectedLetter, 'value' | 'valueBase64'> {
  if (value === null) return {};
  const isReadable = record.state === 'read';
  if (isReadable && value.length <= MAX_SHOWN_BYTES) return { value: forJson(record.message) };
  // The bytes are those of what was erased, too.
  if (isReadable && !record.isWhole) return {};
  return { valueBase64: value.subarray(0, MAX_RAW_BYTES).toString('base64') };
}

function forJson(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value);
  if (Buffer.isBuffer(value)) return value.toString(isUtf8(value) ? 'utf8' : 'base64');
  if (Array.isArray(value)) return value.map(forJson);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, forJson(field)]));
}

/** Undefined where the log has it no longer. */
async function recordAt(
  log: Log,
  { partition, offset }: KnownLetter['place'],
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
    return await withinLimit(Promise.race([promise, tail.failed]), READ_WITHIN.limitMs, () => {
      throw new Unavailable('the dead letter cannot be read');
    });
  } finally {
    await tail.close();
  }
}

/** Follows the topic from the start of this process on. */
class LetterView {
  readonly #deps: LetterDeps;
  readonly #codec: Codec<DeadLetter>;
  readonly #stopped = new AbortController();
  readonly #open: () => Promise<void>;
  #memory = new LetterMemory();
  #tail: Tail | undefined;

  constructor(deps: LetterDeps, codec: Codec<DeadLetter>) {
    this.#deps = deps;
    this.#codec = codec;
    this.#open = nextRound(() => this.#follow());
    const { signal } = this.#stopped;
    const onDelay = (cause: Unavailable): void => deps.logger.error('dead_letters_unread', cause);
    deps.health.warn('dead_letters', () => waitingIn(this.#memory));
    untilAvailable(this.#open, { signal, onDelay }).catch((error: unknown) => this.#failed(error));
  }

  async caughtUp(): Promise<LetterMemory> {
    const { log } = this.#deps;
    await this.#open();
    const [starts, ends] = await Promise.all([log.startOffsets(TOPIC), log.endOffsets(TOPIC)]);
    if (this.#tail === undefined) throw new Unavailable(READ_WITHIN.message);
    await waitForTail(this.#tail, ends, READ_WITHIN);
    this.#memory.expire(starts);
    this.#tell(this.#memory);
    return this.#memory;
  }

  async close(): Promise<void> {
    this.#stopped.abort();
    await this.#tail?.close();
  }

  async #follow(): Promise<void> {
    if (this.#tail !== undefined || this.#stopped.signal.aborted) return;
    const memory = new LetterMemory();
    const tail = await this.#deps.log.tail({
      topic: TOPIC,
      from: 'earliest',
      onTruncated: (partition, offset) => memory.cut(partition, offset),
      onBatch: async ({ partition, records }) => {
        for (const record of records) await this.#take(memory, partition, record);
        this.#tell(memory);
      },
    });
    [this.#memory, this.#tail] = [memory, tail];
    // The next request begins anew.
    tail.failed.catch((error: unknown) => {
      this.#tail = undefined;
      this.#failed(error);
    });
    if (this.#stopped.signal.aborted) await tail.close();
  }

  #failed(error: unknown): void {
    if (this.#stopped.signal.aborted) return;
    this.#deps.logger.error('dead_letters_unread', error, { bug: !(error instanceof Unavailable) });
  }

  async #take(memory: LetterMemory, partition: number, record: LogRecord): Promise<void> {
    const { offset, headers, value, timestampMs: atMs } = record;
    const state = headers[DECISION_HEADER];
    if (state === 'replayed' || state === 'discarded')
      return memory.decide(headers[LETTER_ID_HEADER] ?? '', { state, atMs, offset });
    const id = canonicalUuid(headers[APPEND_ID_HEADER] ?? '');
    if (id === undefined || value === null) return;
    // One may have megabytes, and games wait beside it.
    await nextTurn();
    try {
      const patience = { signal: this.#stopped.signal, onDelay: (cause: Unavailable) => this.#failed(cause) };
      const letter = await untilAvailable(() => this.#codec.decode(value), patience);
      memory.put(knownLetter(id, letter, { partition, offset }));
    } catch (error) {
      // Nobody's letter.
      if (!(error instanceof Invalid)) throw error;
    }
  }

  #tell(memory: LetterMemory): void {
    for (const [group, open] of memory.openOf) this.#deps.metrics.deadLettersOpen.set({ group }, open);
  }
}

function openIn({ openOf }: LetterMemory): number {
  return [...openOf.values()].reduce((sum, n) => sum + n, 0);
}

/** As of the last record that was read: whoever asks for readiness waits for no log. */
function waitingIn(memory: LetterMemory): string | undefined {
  const open = openIn(memory);
  return open === 0 ? undefined : `${open} wait for a decision: questlog dead-letters list`;
}

function knownLetter(id: string, letter: DeadLetter, place: KnownLetter['place']): KnownLetter {
  const { key, value } = letter;
  return {
    ...{ id, place, deadAtMs: letter.deadAt },
    group: headOf(letter.group, MAX_KEY_CHARACTERS),
    topic: headOf(letter.sourceTopic, MAX_KEY_CHARACTERS),
    ...{ partition: letter.sourcePartition, offset: letter.sourceOffset },
    valueBytes: value === null ? null : value.length,
    key: key === null ? null : headOf(key, MAX_KEY_CHARACTERS),
    reason: headOf(letter.reason, MAX_REASON_CHARACTERS),
  };
}

/** A copy: a part of a text keeps all of it in memory. */
function headOf(text: string, characters: number): string {
  return Buffer.from(text.slice(0, characters)).toString();
}
