/** Catalog of topics and offsets in Kafka. Caches the configured limits of each topic, for example its maximum record size. */
import type { Broker, Cluster, Kafka } from 'kafkajs';
import type { Logger } from '../../../process/logger.ts';
import { coalesceCalls } from '../../../process/waiting.ts';
import type { AddedPartitions, Committed, Disk, OffsetRange } from '../../log.ts';
import type { TopicLimits } from '../append/batchSize.ts';
import { createCluster } from '../client/clusterAccess.ts';
import type { PartitionHealth } from '../client/partitionHealth.ts';
import { NO_LEADER } from '../client/patches.ts';
import { ReplaceableClient } from '../client/replaceableClient.ts';
import { withRetries } from '../client/retries.ts';
import { brokerDisks } from './brokerDisks.ts';
import { describeTopic, type TopicsDeps } from './topics.ts';

export interface KafkaDeps {
  readonly kafka: Kafka;
  readonly catalog: KafkaCatalog;
  readonly logger: Logger;
  readonly partitionHealth: PartitionHealth;
  /** Adds the configured prefix to the name of a topic or group, or to a transactional id. */
  nameOf(name: string): string;
}

/** Methods of the catalog that consumers use. Callers pass the names of topics and groups without the configured prefix. */
export type KafkaCatalog = Pick<
  BrokerCatalog,
  'limits' | 'evict' | 'ranges' | 'committed' | 'actualPartitionCounts'
>;

interface TopicEntry {
  readonly limits: Promise<TopicLimits>;
  value: TopicLimits | undefined;
}

export class BrokerCatalog {
  readonly originalPartitions = new Map<string, number>();
  readonly #admin: TopicsDeps;
  readonly #topics = new Map<string, TopicEntry>();
  readonly #clusters: ReplaceableClient<Cluster>;
  readonly #endOffsets = new Map<string, () => Promise<readonly (number | undefined)[]>>();
  /** Coordinator of each consumer group. A `broker` must be used only with the `cluster` that created the `broker`. */
  readonly #coordinators = new Map<string, { readonly cluster: Cluster; readonly broker: Broker }>();

  constructor(kafka: Kafka, admin: TopicsDeps) {
    this.#admin = admin;
    this.#clusters = new ReplaceableClient(() => createCluster(kafka, { readUncommitted: true }));
  }

  async disks(): Promise<readonly Disk[]> {
    const { brokers } = await this.#admin.admin.use(RESPONSE_LIMIT_MS, (admin) => admin.describeCluster());
    const nodeIds = brokers.map(({ nodeId }) => nodeId);
    const reading = await this.#clusters.use(RESPONSE_LIMIT_MS, async (cluster) => {
      // Resolves even if the broker denies the request. After a rejection, `use` would replace the client of the cluster.
      const [result] = await Promise.allSettled([brokerDisks(cluster, nodeIds)]);
      return result;
    });
    if (reading.status === 'rejected') throw reading.reason;
    return reading.value;
  }

  /** Returns the cached limits of a topic. Concurrent calls resolve in order. @throws Error if the topic is missing. */
  limits(topic: string): Promise<TopicLimits> {
    const before = this.#topics.get(topic);
    if (before !== undefined) return before.limits;
    const limits = describeTopic(this.#admin, topic).then((described) => {
      const made = this.originalPartitions.get(topic) ?? described.partitions;
      return { ...described, partitions: Math.min(described.partitions, made) };
    });
    const entry: TopicEntry = { limits, value: undefined };
    this.#topics.set(topic, entry);
    limits.then(
      (value) => {
        entry.value = value;
      },
      () => this.evict(topic),
    );
    return limits;
  }

  /** Returns the cached limits of a topic, or undefined. When the promise of `limits` resolves, the limits are in the cache. */
  cachedLimits(topic: string): TopicLimits | undefined {
    return this.#topics.get(topic)?.value;
  }

  evict(topic: string): void {
    this.#topics.delete(topic);
  }

  async startOffsets(topic: string): Promise<number[]> {
    const { partitions: count } = await this.limits(topic);
    return this.#withRetries(topic, async () =>
      (await this.#fetchOffsets(topic, count, true)).map(requireOffset),
    );
  }

  /** Returns the end offset of each partition. Fails if a partition has no leader. */
  endOffsets(topic: string): Promise<number[]> {
    return this.#withRetries(topic, async () => (await this.#sharedEndOffsets(topic)).map(requireOffset));
  }

  endOffset(topic: string, partition: number): Promise<number> {
    return this.#withRetries(topic, async () =>
      requireOffset((await this.#sharedEndOffsets(topic))[partition], partition),
    );
  }

  async actualPartitionCounts(topics: readonly string[]): Promise<number[]> {
    const names = topics.map((topic) => this.#admin.nameOf(topic));
    const message = 'the partition counts of the topics cannot be read';
    const described = await withRetries({ message, limitMs: RETRY_LIMIT_MS }, () =>
      this.#admin.admin.use(RESPONSE_LIMIT_MS, (admin) => admin.fetchTopicMetadata({ topics: names })),
    );
    const counts = new Map(described.topics.map(({ name, partitions }) => [name, partitions.length]));
    return names.map((name) => counts.get(name) ?? 0);
  }

  async addedPartitions(): Promise<AddedPartitions[]> {
    const made = [...this.originalPartitions];
    const actual = await this.actualPartitionCounts(made.map(([topic]) => topic));
    const addedPartitions: AddedPartitions[] = [];
    for (const [index, [topic, originalPartitions]] of made.entries()) {
      const partitions = actual[index] ?? 0;
      if (partitions <= originalPartitions) continue;
      const ranges = (await this.ranges(topic, partitions)).slice(originalPartitions);
      const records = ranges.reduce(
        (sum, range) => sum + (range ? range.endOffset - range.startOffset : 0),
        0,
      );
      addedPartitions.push({ topic, originalPartitions, partitions, records });
    }
    return addedPartitions;
  }

  /**
   * Returns the oldest offset and the high watermark of each partition, or undefined for a partition without a leader.
   * @param partitions the number of partitions to read, including added partitions.
   */
  async ranges(topic: string, partitions = 0): Promise<(OffsetRange | undefined)[]> {
    const count = Math.max(partitions, (await this.limits(topic)).partitions);
    return this.#withRetries(topic, async () => {
      const starts = await this.#fetchOffsets(topic, count, true);
      const ends = await this.#fetchOffsets(topic, count, false);
      return starts.map((startOffset, partition) => {
        const endOffset = ends[partition];
        return startOffset === undefined || endOffset === undefined ? undefined : { startOffset, endOffset };
      });
    });
  }

  async committed(group: string, topic: string, partitions = 0): Promise<(Committed | undefined)[]> {
    const count = Math.max(partitions, (await this.limits(topic)).partitions);
    const [groupId, name] = [this.#admin.nameOf(group), this.#admin.nameOf(topic)];
    const message = `the committed offsets of ${groupId} for ${name} cannot be read`;
    // kafkajs's types require `offset` in this request, although kafkajs does not send the field.
    const requested = numbers(count).map((partition) => ({ partition, offset: NEVER_COMMITTED }));
    return withRetries({ message, limitMs: RETRY_LIMIT_MS }, async () => {
      // If one partition has an error, the request fails, and the next attempt looks up the coordinator again.
      const { responses } = await this.#clusters.use(RESPONSE_LIMIT_MS, async (cluster) => {
        const coordinator = await this.#coordinator(cluster, groupId);
        return coordinator.offsetFetch({ groupId, topics: [{ topic: name, partitions: requested }] });
      });
      const partitionResponses = responses.find((response) => response.topic === name)?.partitions ?? [];
      return byPartition(count, partitionResponses, (response) =>
        response.offset === NEVER_COMMITTED
          ? undefined
          : { offset: Number(response.offset), metadata: metadataOf(response) },
      );
    });
  }

  close(): Promise<void> {
    return this.#clusters.close();
  }

  async #coordinator(cluster: Cluster, groupId: string): Promise<Broker> {
    const cached = this.#coordinators.get(groupId);
    // Connects a cached broker again if necessary, because brokers close idle connections.
    if (cached?.cluster === cluster && cached.broker.isConnected()) return cached.broker;
    const broker = await cluster.findGroupCoordinator({ groupId });
    this.#coordinators.set(groupId, { cluster, broker });
    return broker;
  }

  /** Concurrent calls share one request, because many readers need the same end offsets. */
  #sharedEndOffsets(topic: string): Promise<readonly (number | undefined)[]> {
    let look = this.#endOffsets.get(topic);
    if (look === undefined) {
      look = coalesceCalls(async () =>
        this.#fetchOffsets(topic, (await this.limits(topic)).partitions, false),
      );
      this.#endOffsets.set(topic, look);
    }
    return look();
  }

  #withRetries<T>(topic: string, look: () => Promise<T>): Promise<T> {
    const message = `the offsets of ${this.#admin.nameOf(topic)} cannot be read`;
    return withRetries({ message, limitMs: RETRY_LIMIT_MS }, look);
  }

  async #fetchOffsets(topic: string, count: number, fromBeginning: boolean): Promise<(number | undefined)[]> {
    const name = this.#admin.nameOf(topic);
    return this.#clusters.use(RESPONSE_LIMIT_MS, async (cluster) => {
      const led = await partitionsWithLeader(cluster, name, count);
      const partitions = led.map((partition) => ({ partition }));
      const responses = await cluster.fetchTopicsOffset([{ topic: name, partitions, fromBeginning }]);
      const partitionResponses = responses.find((response) => response.topic === name)?.partitions ?? [];
      const offsets = new Map(partitionResponses.map(({ partition, offset }) => [partition, Number(offset)]));
      const missing = led.find((partition) => !offsets.has(partition));
      if (missing !== undefined) throw new Error(`the response lacks partition ${missing}`);
      return numbers(count).map((partition) => offsets.get(partition));
    });
  }
}

async function partitionsWithLeader(cluster: Cluster, name: string, count: number): Promise<number[]> {
  await cluster.addMultipleTargetTopics([name]);
  await cluster.refreshMetadataIfNecessary();
  const led = () =>
    cluster
      .findTopicPartitionMetadata(name)
      .filter(({ partitionId, leader }) => partitionId < count && leader !== NO_LEADER)
      .map(({ partitionId }) => partitionId);
  if (led().length < count) await cluster.refreshMetadata();
  return led();
}

function requireOffset(offset: number | undefined, partition: number): number {
  if (offset === undefined) throw new Error(`partition ${partition} has no leader`);
  return offset;
}

const NEVER_COMMITTED = '-1';

const RESPONSE_LIMIT_MS = 4000;

const RETRY_LIMIT_MS = 10_000;

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, partition) => partition);
}

/** kafkajs returns `metadata`, although kafkajs's types do not contain the field. */
function metadataOf(response: object): string {
  return 'metadata' in response && typeof response.metadata === 'string' ? response.metadata : '';
}

function byPartition<T extends { partition: number }, U>(
  count: number,
  responses: readonly T[],
  pick: (response: T) => U,
): U[] {
  const byNumber = new Map(responses.map((response) => [response.partition, response]));
  return numbers(count).map((partition) => {
    const response = byNumber.get(partition);
    if (response === undefined) throw new Error(`the response lacks partition ${partition}`);
    return pick(response);
  });
}
