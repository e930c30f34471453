/** Topics and offsets as the brokers know them. What never changes of a topic is asked for once. */
import type { Broker, Cluster, Kafka } from 'kafkajs';
import type { Logger } from '../../../process/logger.ts';
import type { OffsetRange } from '../../cursor.ts';
import type { Committed } from '../../log.ts';
import type { TopicLimits } from '../append/batchBytes.ts';
import { newCluster } from '../client/clusterAccess.ts';
import { NO_LEADER } from '../client/patches.ts';
import { Renewable } from '../client/renewable.ts';
import { withRetries } from '../client/retries.ts';
import { describeTopic, type TopicsDeps } from './topics.ts';

/** What the parts of the adapter share. */
export interface KafkaDeps {
  readonly kafka: Kafka;
  readonly catalog: KafkaCatalog;
  readonly logger: Logger;
  /** The name on the cluster of a topic, a group or a transactional id: with the deployment's prefix. */
  nameOf(name: string): string;
}

/** Names of topics and groups go in without the prefix. */
export type KafkaCatalog = Pick<BrokerCatalog, 'limits' | 'forget' | 'ranges' | 'committed'>;

export interface BrokerCatalogDeps extends TopicsDeps {
  readonly kafka: Kafka;
}

export class BrokerCatalog {
  /** The partitions that the deployment made each topic with. Those that somebody added since do not exist for it. */
  readonly madeWith = new Map<string, number>();
  readonly #deps: BrokerCatalogDeps;
  readonly #topics = new Map<string, Promise<TopicLimits>>();
  readonly #clusters: Renewable<Cluster>;
  /** One a topic. */
  readonly #endOffsets = new Map<string, () => Promise<readonly number[]>>();
  /** By the group's name on the cluster. A coordinator is of use only with the client that found it. */
  readonly #coordinators = new Map<string, { readonly cluster: Cluster; readonly broker: Broker }>();

  constructor(deps: BrokerCatalogDeps) {
    this.#deps = deps;
    this.#clusters = new Renewable(() => newCluster(deps.kafka, { readUncommitted: true }));
  }

  /**
   * The same promise to all who ask, so that those who wait for it go on in the order in which they came.
   * @throws Error for a topic that is not there; Unavailable when no broker answers.
   */
  limits(topic: string): Promise<TopicLimits> {
    const known = this.#topics.get(topic);
    if (known !== undefined) return known;
    const limits = describeTopic(this.#deps, topic).then((described) => {
      const made = this.madeWith.get(topic) ?? described.partitions;
      return { ...described, partitions: Math.min(described.partitions, made) };
    });
    this.#topics.set(topic, limits);
    limits.catch(() => this.forget(topic));
    return limits;
  }

  /** Asks for the topic anew when it is next needed. */
  forget(topic: string): void {
    this.#topics.delete(topic);
  }

  startOffsets(topic: string): Promise<number[]> {
    return this.#offsets(topic, true);
  }

  /** Every reader of the service asks for the same ones, so that those who ask at about the same time share a look. */
  async endOffsets(topic: string): Promise<number[]> {
    let look = this.#endOffsets.get(topic);
    if (look === undefined) {
      look = nextRound(() => this.#offsets(topic, false));
      this.#endOffsets.set(topic, look);
    }
    return [...(await look())];
  }

  /**
   * Per partition, the oldest offset and the high watermark, as of a moment after the call: with everything that was
   * acknowledged before it. Undefined of a partition that no broker leads now.
   */
  async ranges(topic: string): Promise<(OffsetRange | undefined)[]> {
    const { partitions: count } = await this.limits(topic);
    return this.#withRetries(topic, async () => {
      const starts = await this.#look(topic, count, true);
      const ends = await this.#look(topic, count, false);
      return starts.map((startOffset, partition) => {
        const endOffset = ends[partition];
        return startOffset === undefined || endOffset === undefined ? undefined : { startOffset, endOffset };
      });
    });
  }

  async committed(group: string, topic: string): Promise<(Committed | undefined)[]> {
    const { partitions: count } = await this.limits(topic);
    const [groupId, name] = [this.#deps.nameOf(group), this.#deps.nameOf(topic)];
    const doing = `what ${groupId} committed of ${name} is not known`;
    // Only the types of kafkajs ask for an offset; it is not sent.
    const partitions = numbers(count).map((partition) => ({ partition, offset: NEVER_COMMITTED }));
    return withRetries({ doing, limitMs: LIMIT_MS }, async () => {
      // An error of a partition rejects, too. The client is then replaced, and the coordinator is found anew.
      const { responses } = await this.#clusters.use(ANSWER_LIMIT_MS, async (cluster) => {
        const coordinator = await this.#coordinator(cluster, groupId);
        return coordinator.offsetFetch({ groupId, topics: [{ topic: name, partitions }] });
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

  /** One partition without a leader fails them all, since nobody knows where it begins or ends. */
  async #offsets(topic: string, fromBeginning: boolean): Promise<number[]> {
    const { partitions: count } = await this.limits(topic);
    return this.#withRetries(topic, async () => {
      const offsets = await this.#look(topic, count, fromBeginning);
      return offsets.map((offset, partition) => {
        if (offset === undefined) throw new Error(`partition ${partition} has no leader`);
        return offset;
      });
    });
  }

  #withRetries<T>(topic: string, look: () => Promise<T>): Promise<T> {
    const doing = `the offsets of ${this.#deps.nameOf(topic)} are not known`;
    return withRetries({ doing, limitMs: LIMIT_MS }, look);
  }

  /** Undefined of a partition without a leader. */
  async #look(topic: string, count: number, fromBeginning: boolean): Promise<(number | undefined)[]> {
    const name = this.#deps.nameOf(topic);
    return this.#clusters.use(ANSWER_LIMIT_MS, async (cluster) => {
      const led = await ledPartitions(cluster, name, count);
      const partitions = led.map((partition) => ({ partition }));
      const answers = await cluster.fetchTopicsOffset([{ topic: name, partitions, fromBeginning }]);
      const answered = answers.find((answer) => answer.topic === name)?.partitions ?? [];
      const offsets = new Map(answered.map(({ partition, offset }) => [partition, Number(offset)]));
      const leftOut = led.find((partition) => !offsets.has(partition));
      if (leftOut !== undefined) throw new Error(`nothing was answered of partition ${leftOut}`);
      return numbers(count).map((partition) => offsets.get(partition));
    });
  }
}

/** Those that a broker leads. What is known of leaders may be minutes old: where one is missing they are asked for anew. */
async function ledPartitions(cluster: Cluster, name: string, count: number): Promise<number[]> {
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

/** The brokers' answer if a group never committed. */
const NEVER_COMMITTED = '-1';

const ANSWER_LIMIT_MS = 4000;

const LIMIT_MS = 10_000;

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
/**
 * Callers of the same work share a round of it that begins after they called: the round that runs may have looked before
 * what they know of had happened. However many call, one round runs and one more is waiting.
 */
export function nextRound<T>(work: () => Promise<T>): () => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  let next: Promise<T> | undefined;
  const begin = (): Promise<T> => {
    next = undefined;
    const round = work();
    last = round.catch(() => undefined);
    return round;
  };
  return () => {
    next ??= last.then(begin);
    return next;
  };
}
