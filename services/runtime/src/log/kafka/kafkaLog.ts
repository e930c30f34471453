/** The log of a deployment: the port of `log.ts` on a Kafka cluster, by kafkajs. */
import { randomUUID } from 'node:crypto';
import type { Admin, Kafka } from 'kafkajs';
import { messageOf, StartRefused, Unavailable } from '../../process/errors.ts';
import type { Logger } from '../../process/logger.ts';
import { settledWithin } from '../../process/waiting.ts';
import type { FollowingTail } from '../followingTail.ts';
import type {
  AddedPartitions,
  Appended,
  Committed,
  ConsumeOptions,
  Consumer,
  Kept,
  Log,
  NewRecord,
  OffsetRange,
  SickPartition,
  Tail,
  TailOptions,
  TopicSpec,
  TransactionalProducer,
} from '../log.ts';
import { RecordTooLarge } from '../log.ts';
import { endOnceLed } from '../neededPartition.ts';
import { batchRoom, checkedBytes, type TopicLimits } from './append/batchBytes.ts';
import { PartitionAppender, WaitingBytes } from './append/partitionAppender.ts';
import type { Send } from './append/partitionProducer.ts';
import { Producers, SEND_LIMIT_MS } from './append/producers.ts';
import { openTransactionalProducer } from './append/transactionalProducer.ts';
import { asFailure, isOfCredentials, isOfSettings, isOfType } from './client/failures.ts';
import { type KafkaConnection, kafkaClient } from './client/kafkaClient.ts';
import { reachBrokers } from './client/reachBrokers.ts';
import { Renewable } from './client/renewable.ts';
import { SickPartitions } from './client/sickPartitions.ts';
import { openConsumer } from './group/consumerGroup.ts';
import { openTail } from './read/fetcher.ts';
import type { KafkaDeps } from './topics/catalog.ts';
import { BrokerCatalog } from './topics/catalog.ts';
import { describeTopic, ensureTopics, keptBy } from './topics/topics.ts';

export interface KafkaLogOptions {
  readonly connection: KafkaConnection;
  /** Before every topic, consumer group and transactional id, so that deployments can share a cluster. */
  readonly prefix: string;
  /** Missing topics are made with it; -1: the brokers' default. */
  readonly replicationFactor: number;
  readonly logger: Logger;
}

/**
 * Connects, and finds or makes the log's id.
 * @throws Unavailable when no broker answers; StartRefused when they do not take the credentials.
 */
export async function openKafkaLog(options: KafkaLogOptions): Promise<Log> {
  const kafka = kafkaClient(options.connection, options.logger);
  const admin = new Renewable(() => kafka.admin());
  const nameOf = (name: string) => `${options.prefix}${name}`;
  const catalog = new BrokerCatalog({ kafka, admin, replicationFactor: options.replicationFactor, nameOf });
  const sick = new SickPartitions(options.logger);
  const log = new KafkaLog({ ...options, kafka, admin, catalog, sick, nameOf });
  try {
    await reachBrokers(options);
    await log.identify();
    return log;
  } catch (error) {
    await log.close().catch(() => undefined);
    throw atStart(error);
  }
}

function atStart(error: unknown): Error {
  if (error instanceof StartRefused) return error;
  if (isOfCredentials(error)) {
    // Our own words around it say that nothing can be reached.
    const cause = error instanceof Unavailable ? error.cause : error;
    return new StartRefused(`Kafka does not let this process in: ${messageOf(cause)}`, { cause: error });
  }
  const failure = asFailure(error, 'the log cannot be opened');
  return isOfSettings(error) ? new StartRefused(failure.message, { cause: error }) : failure;
}

/** What the brokers do not answer holds the close up no longer than this; the callers of a send hear of it. */
const CLOSE_LIMIT_MS = 3000;

interface KafkaLogDeps extends KafkaDeps {
  readonly kafka: Kafka;
  readonly admin: Renewable<Admin>;
  readonly catalog: BrokerCatalog;
  readonly replicationFactor: number;
}

class KafkaLog implements Log {
  #id: string | undefined;
  readonly #deps: KafkaLogDeps;
  readonly #producers: Producers;
  readonly #waiting = new WaitingBytes();
  readonly #appenders = new Map<string, PartitionAppender>();
  /** The last question of each topic whose limits an append had to wait for. */
  readonly #askedLimits = new Map<string, Promise<unknown>>();
  readonly #tails = new Set<FollowingTail>();
  readonly #consumers = new Set<Consumer>();
  readonly #transactional = new Set<TransactionalProducer>();
  #closing: Promise<void> | undefined;

  constructor(deps: KafkaLogDeps) {
    this.#deps = deps;
    this.#producers = new Producers(deps);
  }

  get id(): string {
    if (this.#id === undefined) throw new Error('the log is not identified yet');
    return this.#id;
  }

  /** Once, before the log is given away. */
  async identify(): Promise<void> {
    const { id, madeWith } = await findOrMakeLog(this, this.#deps.logger);
    for (const [topic, partitions] of madeWith) this.#deps.catalog.madeWith.set(topic, partitions);
    this.#id = id;
  }

  async ensureTopics(topics: readonly TopicSpec[]): Promise<void> {
    this.#checkOpen();
    const { madeWith } = this.#deps.catalog;
    await ensureTopics(this.#deps, topics, madeWith);
    const unknown = topics.filter(({ name }) => name !== LOG_TOPIC && !madeWith.has(name));
    if (unknown.length === 0) return;
    await this.append(LOG_TOPIC, 0, unknown.map(partitionsRecord));
    for (const { name, partitions } of unknown) madeWith.set(name, partitions);
  }

  append(topic: string, partition: number, records: readonly NewRecord[]): Promise<Appended> {
    const deadlineMs = performance.now() + SEND_LIMIT_MS;
    const known = this.#deps.catalog.knownLimits(topic);
    if (known !== undefined) return this.#appendWithin(known, partition, records, deadlineMs);
    const asked = this.#deps.catalog.limits(topic);
    this.#askedLimits.set(topic, asked);
    return asked.then((limits) => this.#appendWithin(limits, partition, records, deadlineMs));
  }

  async partitionCount(topic: string): Promise<number> {
    return (await this.#deps.catalog.limits(topic)).partitions;
  }

  async endOffsets(topic: string): Promise<number[]> {
    return this.#deps.catalog.endOffsets(topic);
  }

  async endOffset(topic: string, partition: number): Promise<number> {
    return this.#deps.catalog.endOffset(topic, partition);
  }

  async startOffsets(topic: string): Promise<number[]> {
    return this.#deps.catalog.startOffsets(topic);
  }

  async offsetRanges(topic: string): Promise<(OffsetRange | undefined)[]> {
    return this.#deps.catalog.ranges(topic);
  }

  async kept(topic: string): Promise<Kept> {
    this.#checkOpen();
    return keptBy(await describeTopic(this.#deps, topic));
  }

  async committed(group: string, topic: string): Promise<(Committed | undefined)[]> {
    this.#checkOpen();
    return this.#deps.catalog.committed(group, topic);
  }

  async added(): Promise<readonly AddedPartitions[]> {
    this.#checkOpen();
    return this.#deps.catalog.added();
  }

  async tail(options: TailOptions): Promise<Tail> {
    this.#checkOpen();
    const tail = await openTail(this.#deps, options);
    return this.#keep(this.#tails, tail, tail.ended, () => tail.close());
  }

  async consume(options: ConsumeOptions): Promise<Consumer> {
    this.#checkOpen();
    const consumer = await openConsumer(this.#deps, options);
    return this.#keep(this.#consumers, consumer, consumer.failed, () => consumer.stop());
  }

  async transactional(transactionalId: string): Promise<TransactionalProducer> {
    this.#checkOpen();
    const producer = await openTransactionalProducer(this.#deps, transactionalId);
    return this.#keep(this.#transactional, producer, producer.closed, () => producer.close());
  }

  sickPartitions(): readonly SickPartition[] {
    return this.#deps.sick.list();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    // Consumers first, while what they finish can still be appended and committed.
    await Promise.all([...this.#consumers].map((consumer) => consumer.stop()));
    await settledWithin(this.#closeOthers(), CLOSE_LIMIT_MS);
  }

  /** Goes on where the brokers are silent. */
  async #closeOthers(): Promise<void> {
    await Promise.all([...this.#tails].map((tail) => tail.close().then(() => tail.ended)));
    // An append that has begun waits in no appender yet while the brokers are asked for its topic's limits.
    await Promise.allSettled(this.#askedLimits.values());
    await Promise.all([...this.#appenders.values()].map((appender) => appender.idle()));
    const { catalog, admin } = this.#deps;
    await Promise.all([...this.#transactional, this.#producers, catalog, admin].map((part) => part.close()));
  }

  /** Rejects instead of throwing: `append` is no async function, which would cost each append turns of its own. */
  #appendWithin(
    limits: TopicLimits,
    partition: number,
    records: readonly NewRecord[],
    deadlineMs: number,
  ): Promise<Appended> {
    const { topic } = limits;
    try {
      const bytes = checkedBytes(limits, partition, records).reduce((sum, one) => sum + one, 0);
      const maxSendBytes = batchRoom(limits);
      // A batch cannot be split without the append being two.
      if (bytes > maxSendBytes) throw new RecordTooLarge(topic, bytes, maxSendBytes);
      return this.#appender(topic, partition).append({ records, bytes, maxSendBytes, deadlineMs });
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #appender(topic: string, partition: number): PartitionAppender {
    const key = `${topic}/${partition}`;
    const known = this.#appenders.get(key);
    if (known !== undefined) return known;
    const appender = new PartitionAppender({
      send: (send) => this.#send(topic, send),
      waiting: this.#waiting,
      watch: this.#deps.sick.watch({ doing: 'append', topic, partition }),
      topic: this.#deps.nameOf(topic),
      partition,
    });
    this.#appenders.set(key, appender);
    return appender;
  }

  async #send(topic: string, send: Send): Promise<number> {
    try {
      return await this.#producers.send(send);
    } catch (error) {
      // An operator has made the limit smaller or the topic away: the next append is to know.
      if (isOfType(error, 'MESSAGE_TOO_LARGE', 'UNKNOWN_TOPIC_OR_PARTITION'))
        this.#deps.catalog.forget(topic);
      throw error;
    }
  }

  /** Keeps what was opened until it ends by itself. One that was opened while the log closes is closed at once. */
  async #keep<T>(all: Set<T>, opened: T, gone: Promise<unknown>, close: () => Promise<void>): Promise<T> {
    all.add(opened);
    const forget = () => all.delete(opened);
    gone.then(forget, forget);
    if (this.#closing === undefined) return opened;
    await close();
    throw new Unavailable('the log is closed');
  }

  #checkOpen(): void {
    if (this.#closing !== undefined) throw new Unavailable('the log is closed');
  }
}

/**
 * The log's identity is the first record of a topic that every opener can write to. Of two that open a new log at once
 * the earlier record wins for both. Each has a key of its own, so compaction keeps it. Behind it are the partitions that
 * each topic was made with.
 */
async function findOrMakeLog(log: Omit<Log, 'id'>, logger: Logger): Promise<LogFacts> {
  await log.ensureTopics([
    { name: LOG_TOPIC, partitions: 1, cleanup: { policy: 'compact' }, maxRecordBytes: MAX_RECORD_BYTES },
  ]);
  const found = await factsOf(log, logger);
  if (found !== undefined) return found;
  const id = randomUUID();
  await log.append(LOG_TOPIC, 0, [{ key: id, value: Buffer.from(id) }]);
  const made = await factsOf(log, logger);
  if (made === undefined) throw new Error(`${LOG_TOPIC} does not hold what was appended to it`);
  return made;
}

const LOG_TOPIC = 'questlog.log.v1';
const MAX_RECORD_BYTES = 1024;
const PARTITIONS_KEY = 'partitions/';

interface LogFacts {
  readonly id: string;
  /** By topic. */
  readonly madeWith: ReadonlyMap<string, number>;
}

function partitionsRecord({ name, partitions }: TopicSpec): NewRecord {
  return { key: PARTITIONS_KEY + name, value: Buffer.from(String(partitions)) };
}

async function factsOf(log: Omit<Log, 'id'>, logger: Logger): Promise<LogFacts | undefined> {
  const end = await endOnceLed(log, logger, LOG_TOPIC);
  let id: string | undefined;
  const madeWith = new Map<string, number>();
  const tail = await log.tail({
    topic: LOG_TOPIC,
    from: 'earliest',
    onBatch: ({ records }) => {
      id ??= records[0]?.value?.toString();
      for (const { key, value } of records) {
        if (key?.startsWith(PARTITIONS_KEY)) madeWith.set(key.slice(PARTITIONS_KEY.length), Number(value));
      }
    },
  });
  try {
    await Promise.race([tail.reached([end]), tail.failed]);
  } finally {
    await tail.close();
  }
  return id === undefined ? undefined : { id, madeWith };
}
