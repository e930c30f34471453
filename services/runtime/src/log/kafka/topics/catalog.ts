/** Topics and offsets as the brokers know them. What never changes of a topic is asked for once. */
import type { Broker, Cluster, Kafka } from 'kafkajs';
import type { Logger } from '../../../process/logger.ts';
import { coalesceCalls } from '../../../process/waiting.ts';
import type { AddedPartitions, Committed, OffsetRange } from '../../log.ts';
import type { TopicLimits } from '../append/batchSize.ts';
import { createCluster } from '../client/clusterAccess.ts';
import type { PartitionHealth } from '../client/partitionHealth.ts';
import { NO_LEADER } from '../client/patches.ts';
import { ReplaceableClient } from '../client/replaceableClient.ts';
import { withRetries } from '../client/retries.ts';
import { describeTopic, type TopicsDeps } from './topics.ts';

/** What the parts of the adapter share. */
export interface KafkaDeps {
  readonly kafka: Kafka;
  readonly catalog: KafkaCatalog;
  readonly logger: Logger;
  readonly partitionHealth: PartitionHealth;
  /** The name on the cluster of a topic, a group or a transactional id: with the deployment's prefix. */
  nameOf(name: string): string;
}

/** Names of topics and groups go in without the prefix. */
export type KafkaCatalog = Pick<
  BrokerCatalog,
  'limits' | 'evict' | 'ranges' | 'committed' | 'actualPartitionCounts'
>;

export interface BrokerCatalogDeps extends TopicsDeps {
  readonly kafka: Kafka;
}

interface TopicEntry {
  readonly limits: Promise<TopicLimits>;
  /** From the answer on. */
  value: TopicLimits | undefined;
}

export class BrokerCatalog {
  /** The partitions that the deployment made each topic with. */
  readonly originalPartitions = new Map<string, number>();
  readonly #deps: BrokerCatalogDeps;
  readonly #topics = new Map<string, TopicEntry>();
  readonly #clusters: ReplaceableClient<Cluster>;
  /** One a topic. */
  readonly #endOffsets = new Map<string, () => Promise<readonly (number | undefined)[]>>();
  /** By the group's name on the cluster. A coordinator is of use only with the client that found it. */
  readonly #coordinators = new Map<string, { readonly cluster: Cluster; readonly broker: Broker }>();

  constructor(deps: BrokerCatalogDeps) {
    this.#deps = deps;
    this.#clusters = new ReplaceableClient(() => createCluster(deps.kafka, { readUncommitted: true }));
  }

  /**
   * The same promise to all who ask, so that those who wait for it go on in the order in which they came.
   * @throws Error for a topic that is not there; Unavailable when no broker answers.
   */
  limits(topic: string): Promise<TopicLimits> {
    const before = this.#topics.get(topic);
    if (before !== undefined) return before.limits;
    const limits = describeTopic(this.#deps, topic).then((described) => {
      const made = this.originalPartitions.get(topic) ?? described.partitions;
      return { ...described, partitions: Math.min(described.partitions, made) };
    });
    const asked: TopicEntry = { limits, value: undefined };
    this.#topics.set(topic, asked);
    limits.then(
      (known) => {
        asked.value = known;
      },
      () => this.evict(topic),
    );
    return limits;
  }

  /**
   * Those that `limits` would answer at once. Whoever waits there for them is told in the same turn in which they become
   * known, so that nobody overtakes him here.
   */
  cachedLimits(topic: string): TopicLimits | undefined {
    return this.#topics.get(topic)?.value;
  }

  /** Asks for the topic anew when it is next needed. */
  evict(topic: string): void {
    this.#topics.delete(topic);
  }

  async startOffsets(topic: string): Promise<number[]> {
    const { partitions: count } = await this.limits(topic);
    return this.#withRetries(topic, async () => (await this.#fetchOffsets(topic, count, true)).map(known));
  }

  /** One partition without a leader fails them all, since nobody knows where it ends. */
  endOffsets(topic: string): Promise<number[]> {
    return this.#withRetries(topic, async () => (await this.#sharedEndOffsets(topic)).map(known));
  }

  endOffset(topic: string, partition: number): Promise<number> {
    return this.#withRetries(topic, async () =>
      known((await this.#sharedEndOffsets(topic))[partition], partition),
    );
  }

  /** Per topic, in their order, the partitions that it has by now, those that somebody added too. */
  async actualPartitionCounts(topics: readonly string[]): Promise<number[]> {
    const names = topics.map((topic) => this.#deps.nameOf(topic));
    const message = 'the partitions of topics are not known';
    const described = await withRetries({ message, limitMs: RETRY_LIMIT_MS }, () =>
      this.#deps.admin.use(RESPONSE_LIMIT_MS, (admin) => admin.fetchTopicMetadata({ topics: names })),
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
   * Per partition, the oldest offset and the high watermark, as of a moment after the call: with everything that was
   * acknowledged before it. Undefined of a partition that no broker leads now.
   * @param partitions more than the topic's own, where those are wanted that somebody added.
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

  /** @param partitions as for `ranges`. */
  async committed(group: string, topic: string, partitions = 0): Promise<(Committed | undefined)[]> {
    const count = Math.max(partitions, (await this.limits(topic)).partitions);
    const [groupId, name] = [this.#deps.nameOf(group), this.#deps.nameOf(topic)];
    const message = `what ${groupId} committed of ${name} is not known`;
    // Only the types of kafkajs ask for an offset; it is not sent.
    const asked = numbers(count).map((partition) => ({ partition, offset: NEVER_COMMITTED }));
    return withRetries({ message, limitMs: RETRY_LIMIT_MS }, async () => {
      // An error of a partition rejects, too. The client is then replaced, and the coordinator is found anew.
      const { responses } = await this.#clusters.use(RESPONSE_LIMIT_MS, async (cluster) => {
        const coordinator = await this.#coordinator(cluster, groupId);
        return coordinator.offsetFetch({ groupId, topics: [{ topic: name, partitions: asked }] });
      });
      const answered = responses.find((answer) => answer.topic === name)?.partitions ?? [];
      return byPartition(count, answered, (answer) =>
        answer.offset === NEVER_COMMITTED
          ? undefined
          : { offset: Number(answer.offset), metadata: metadataOf(answer) },
      );
    });
  }

  close(): Promise<void> {
    return this.#clusters.close();
  }

  /** Kept, since whoever waits for a projection asks again and again. */
  async #coordinator(cluster: Cluster, groupId: string): Promise<Broker> {
    const known = this.#coordinators.get(groupId);
    // The brokers close a connection that is idle for long.
    if (known?.cluster === cluster && known.broker.isConnected()) return known.broker;
    const broker = await cluster.findGroupCoordinator({ groupId });
    this.#coordinators.set(groupId, { cluster, broker });
    return broker;
  }

  /** Every reader of the service asks for the same ones, so that those who ask at about the same time share a look. */
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
    const message = `the offsets of ${this.#deps.nameOf(topic)} are not known`;
    return withRetries({ message, limitMs: RETRY_LIMIT_MS }, look);
  }

  /** Undefined of a partition without a leader. */
  async #fetchOffsets(topic: string, count: number, fromBeginning: boolean): Promise<(number | undefined)[]> {
    const name = this.#deps.nameOf(topic);
    return this.#clusters.use(RESPONSE_LIMIT_MS, async (cluster) => {
      const led = await partitionsWithLeader(cluster, name, count);
      const partitions = led.map((partition) => ({ partition }));
      const answers = await cluster.fetchTopicsOffset([{ topic: name, partitions, fromBeginning }]);
      const answered = answers.find((answer) => answer.topic === name)?.partitions ?? [];
      const offsets = new Map(answered.map(({ partition, offset }) => [partition, Number(offset)]));
      const missing = led.find((partition) => !offsets.has(partition));
      if (missing !== undefined) throw new Error(`nothing was answered of partition ${missing}`);
      return numbers(count).map((partition) => offsets.get(partition));
    });
  }
}

/** Those that a broker leads. What is known of leaders may be minutes old: where one is missing they are asked for anew. */
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

function known(offset: number | undefined, partition: number): number {
  if (offset === undefined) throw new Error(`partition ${partition} has no leader`);
  return offset;
}

/** The brokers' answer if a group never committed. */
const NEVER_COMMITTED = '-1';

const RESPONSE_LIMIT_MS = 4000;

const RETRY_LIMIT_MS = 10_000;

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, partition) => partition);
}

/** It is missing in kafkajs's types, not in what it answers. */
function metadataOf(answer: object): string {
  return 'metadata' in answer && typeof answer.metadata === 'string' ? answer.metadata : '';
}

/** @throws when the brokers left one out, so that nothing is taken for 0 that is only unknown. */
function byPartition<T extends { partition: number }, U>(
  count: number,
  answers: readonly T[],
  pick: (answer: T) => U,
): U[] {
  const known = new Map(answers.map((answer) => [answer.partition, answer]));
  return numbers(count).map((partition) => {
    const answer = known.get(partition);
    if (answer === undefined) throw new Error(`nothing was answered of partition ${partition}`);
    return pick(answer);
  });
}
