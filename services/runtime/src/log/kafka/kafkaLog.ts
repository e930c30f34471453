/** Implements the log interface of `log.ts` with Kafka and kafkajs. */
import { randomUUID } from 'node:crypto';
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
  Disk,
  Log,
  NewRecord,
  OffsetRange,
  Tail,
  TailOptions,
  TopicRetention,
  TopicSpec,
  TransactionalProducer,
  UnavailablePartition,
} from '../log.ts';
import { RecordTooLarge } from '../log.ts';
import { waitForEndOffset } from '../waitForEndOffset.ts';
import { checkSizes, maxRecordsBytes, type TopicLimits } from './append/batchSize.ts';
import { AppendBudget, PartitionAppender } from './append/partitionAppender.ts';
import type { PartitionBatch } from './append/partitionProducer.ts';
import { Producers, SEND_LIMIT_MS } from './append/producers.ts';
import { openTransactionalProducer } from './append/transactionalProducer.ts';
import { hasErrorType, isCredentialsError, isSettingsError, toLogError } from './client/errors.ts';
import { type KafkaConnection, kafkaClient } from './client/kafkaClient.ts';
import { PartitionHealth } from './client/partitionHealth.ts';
import { reachBrokers } from './client/reachBrokers.ts';
import { ReplaceableClient } from './client/replaceableClient.ts';
import { openConsumer } from './group/consumerGroup.ts';
import { openTail } from './read/fetcher.ts';
import type { KafkaDeps } from './topics/catalog.ts';
import { BrokerCatalog } from './topics/catalog.ts';
import { describeTopic, ensureTopics, retentionOf, type TopicsDeps } from './topics/topics.ts';

export interface KafkaLogOptions {
  readonly connection: KafkaConnection;
  /** Prefix of topics, consumer groups, and transactional ids, so that several deployments can share a cluster. */
  readonly prefix: string;
  /** Replication factor of new topics. -1 selects the default of the brokers. */
  readonly replicationFactor: number;
  readonly logger: Logger;
}

/** @throws Unavailable if no broker responds. @throws StartRefused if the brokers reject the credentials. */
export async function openKafkaLog(options: KafkaLogOptions): Promise<Log> {
  const kafka = kafkaClient(options.connection, options.logger);
  const admin = new ReplaceableClient(() => kafka.admin());
  const nameOf = (name: string) => `${options.prefix}${name}`;
  const topics = { admin, replicationFactor: options.replicationFactor, nameOf };
  const catalog = new BrokerCatalog(kafka, topics);
  const partitionHealth = new PartitionHealth(options.logger);
  const log = new KafkaLog({ ...topics, kafka, catalog, partitionHealth, logger: options.logger }, catalog);
  try {
    await reachBrokers(options);
    await log.identify();
    return log;
  } catch (error) {
    await log.close().catch(() => undefined);
    throw startError(error);
  }
}

function startError(error: unknown): Error {
  if (error instanceof StartRefused) return error;
  if (isCredentialsError(error)) {
    // The message of an `Unavailable` says only that no broker can be reached. The error's `cause` contains the reason.
    const cause = error instanceof Unavailable ? error.cause : error;
    return new StartRefused(`Kafka rejects the credentials of this process: ${messageOf(cause)}`, {
      cause: error,
    });
  }
  const failure = toLogError(error, 'the log cannot be opened');
  return isSettingsError(error) ? new StartRefused(failure.message, { cause: error }) : failure;
}

/** Maximum time to wait for the brokers when the log closes. After this time, pending appends fail. */
const CLOSE_LIMIT_MS = 3000;

class KafkaLog implements Log {
  #id: string | undefined;
  readonly #deps: KafkaDeps & TopicsDeps;
  readonly #catalog: BrokerCatalog;
  readonly #producers: Producers;
  readonly #appendBudget = new AppendBudget();
  readonly #appenders = new Map<string, PartitionAppender>();
  /** For each topic, the latest request for its limits. Appends to a topic without cached limits wait for this request. */
  readonly #pendingLimits = new Map<string, Promise<unknown>>();
  readonly #tails = new Set<FollowingTail>();
  readonly #consumers = new Set<Consumer>();
  readonly #transactional = new Set<TransactionalProducer>();
  readonly appendQueue = this.#appendBudget.asResource;
  #closing: Promise<void> | undefined;

  constructor(deps: KafkaDeps & TopicsDeps, catalog: BrokerCatalog) {
    this.#deps = deps;
    this.#catalog = catalog;
    this.#producers = new Producers(deps.kafka, deps.logger);
  }

  get id(): string {
    if (this.#id === undefined) throw new Error('the log is not identified yet');
    return this.#id;
  }

  async identify(): Promise<void> {
    const { id, originalPartitions } = await findOrCreateLog(this, this.#deps.logger);
    for (const [topic, partitions] of originalPartitions)
      this.#catalog.originalPartitions.set(topic, partitions);
    this.#id = id;
  }

  async ensureTopics(topics: readonly TopicSpec[]): Promise<void> {
    this.#checkOpen();
    const { originalPartitions } = this.#catalog;
    await ensureTopics(this.#deps, topics, originalPartitions);
    const unrecorded = topics.filter(({ name }) => name !== LOG_TOPIC && !originalPartitions.has(name));
    if (unrecorded.length === 0) return;
    await this.append(LOG_TOPIC, 0, unrecorded.map(partitionsRecord));
    for (const { name, partitions } of unrecorded) originalPartitions.set(name, partitions);
  }

  append(topic: string, partition: number, records: readonly NewRecord[]): Promise<Appended> {
    const deadlineMs = performance.now() + SEND_LIMIT_MS;
    const cached = this.#catalog.cachedLimits(topic);
    if (cached !== undefined) return this.#appendWithin(cached, partition, records, deadlineMs);
    const pending = this.#catalog.limits(topic);
    this.#pendingLimits.set(topic, pending);
    return pending.then((limits) => this.#appendWithin(limits, partition, records, deadlineMs));
  }

  disks(): Promise<readonly Disk[]> {
    return this.#catalog.disks();
  }

  async partitionCount(topic: string): Promise<number> {
    return (await this.#catalog.limits(topic)).partitions;
  }

  async endOffsets(topic: string): Promise<number[]> {
    return this.#catalog.endOffsets(topic);
  }

  async endOffset(topic: string, partition: number): Promise<number> {
    return this.#catalog.endOffset(topic, partition);
  }

  async startOffsets(topic: string): Promise<number[]> {
    return this.#catalog.startOffsets(topic);
  }

  async offsetRanges(topic: string): Promise<(OffsetRange | undefined)[]> {
    return this.#catalog.ranges(topic);
  }

  async retention(topic: string): Promise<TopicRetention> {
    this.#checkOpen();
    return retentionOf(await describeTopic(this.#deps, topic));
  }

  async committed(group: string, topic: string): Promise<(Committed | undefined)[]> {
    this.#checkOpen();
    return this.#catalog.committed(group, topic);
  }

  async addedPartitions(): Promise<readonly AddedPartitions[]> {
    this.#checkOpen();
    return this.#catalog.addedPartitions();
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

  async transactionalProducer(transactionalId: string): Promise<TransactionalProducer> {
    this.#checkOpen();
    const producer = await openTransactionalProducer(this.#deps, transactionalId);
    return this.#keep(this.#transactional, producer, producer.closed, () => producer.close());
  }

  unavailablePartitions(): readonly UnavailablePartition[] {
    return this.#deps.partitionHealth.list();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    // Consumers stop first, because a consumer can append records until it has stopped.
    await Promise.all([...this.#consumers].map((consumer) => consumer.stop()));
    await settledWithin(this.#closeOthers(), CLOSE_LIMIT_MS);
  }

  async #closeOthers(): Promise<void> {
    await Promise.all([...this.#tails].map((tail) => tail.close().then(() => tail.ended)));
    // Waits until the pending appends have entered the queues of their partitions, and then until all queues are empty.
    await Promise.allSettled(this.#pendingLimits.values());
    await Promise.all([...this.#appenders.values()].map((appender) => appender.idle()));
    const parts = [...this.#transactional, this.#producers, this.#catalog, this.#deps.admin];
    await Promise.all(parts.map((part) => part.close()));
  }

  /** This function is not async, because each async function delays an append. Errors reject the promise. */
  #appendWithin(
    limits: TopicLimits,
    partition: number,
    records: readonly NewRecord[],
    deadlineMs: number,
  ): Promise<Appended> {
    const { topic } = limits;
    try {
      const bytes = checkSizes(limits, partition, records).reduce((sum, one) => sum + one, 0);
      const maxSendBytes = maxRecordsBytes(limits);
      // An append is atomic, so its records must fit into one batch.
      if (bytes > maxSendBytes) throw new RecordTooLarge(topic, bytes, maxSendBytes);
      return this.#appender(topic, partition).append({ records, bytes, maxSendBytes, deadlineMs });
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #appender(topic: string, partition: number): PartitionAppender {
    const key = `${topic}/${partition}`;
    const cached = this.#appenders.get(key);
    if (cached !== undefined) return cached;
    const appender = new PartitionAppender({
      send: (batch) => this.#send(topic, batch),
      budget: this.#appendBudget,
      watch: this.#deps.partitionHealth.watch({ operation: 'append', topic, partition }),
      topic: this.#deps.nameOf(topic),
      partition,
    });
    this.#appenders.set(key, appender);
    return appender;
  }

  async #send(topic: string, batch: PartitionBatch): Promise<number> {
    try {
      return await this.#producers.send(batch);
    } catch (error) {
      // An operator may have lowered the size limit or deleted the topic, so the cached limits are discarded.
      if (hasErrorType(error, 'MESSAGE_TOO_LARGE', 'UNKNOWN_TOPIC_OR_PARTITION')) this.#catalog.evict(topic);
      throw error;
    }
  }

  async #keep<T>(all: Set<T>, opened: T, ended: Promise<unknown>, close: () => Promise<void>): Promise<T> {
    all.add(opened);
    const remove = () => all.delete(opened);
    ended.then(remove, remove);
    if (this.#closing === undefined) return opened;
    await close();
    throw new Unavailable('the log is closed');
  }

  #checkOpen(): void {
    if (this.#closing !== undefined) throw new Unavailable('the log is closed');
  }
}

/**
 * Returns the id and the partition counts of the log from the records of `LOG_TOPIC`. Creates the id if it is missing. If two
 * processes create an id at the same time, both processes use the first record.
 */
async function findOrCreateLog(log: Omit<Log, 'id'>, logger: Logger): Promise<LogFacts> {
  await log.ensureTopics([
    { name: LOG_TOPIC, partitions: 1, cleanup: { policy: 'compact' }, maxRecordBytes: MAX_RECORD_BYTES },
  ]);
  const found = await readLogFacts(log, logger);
  if (found !== undefined) return found;
  const id = randomUUID();
  // The key is unique, so that compaction keeps the topic's first record, which determines the id of the log.
  await log.append(LOG_TOPIC, 0, [{ key: id, value: Buffer.from(id) }]);
  const created = await readLogFacts(log, logger);
  if (created === undefined) throw new Error(`${LOG_TOPIC} does not contain the record that was appended`);
  return created;
}

const LOG_TOPIC = 'questlog.log.v1';
const MAX_RECORD_BYTES = 1024;
const PARTITIONS_KEY = 'partitions/';

interface LogFacts {
  readonly id: string;
  readonly originalPartitions: ReadonlyMap<string, number>;
}

function partitionsRecord({ name, partitions }: TopicSpec): NewRecord {
  return { key: PARTITIONS_KEY + name, value: Buffer.from(String(partitions)) };
}

async function readLogFacts(log: Omit<Log, 'id'>, logger: Logger): Promise<LogFacts | undefined> {
  const end = await waitForEndOffset(log, logger, LOG_TOPIC);
  let id: string | undefined;
  const originalPartitions = new Map<string, number>();
  const tail = await log.tail({
    topic: LOG_TOPIC,
    from: 'earliest',
    onBatch: ({ records }) => {
      id ??= records[0]?.value?.toString();
      for (const { key, value } of records) {
        if (key?.startsWith(PARTITIONS_KEY))
          originalPartitions.set(key.slice(PARTITIONS_KEY.length), Number(value));
      }
    },
  });
  try {
    await Promise.race([tail.waitForOffsets([end]), tail.failed]);
  } finally {
    await tail.close();
  }
  return id === undefined ? undefined : { id, originalPartitions };
}
