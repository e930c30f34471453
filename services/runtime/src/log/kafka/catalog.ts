/** Topics and offsets as the brokers know them. What never changes of a topic is asked for once. */
import type { Cluster, Kafka } from 'kafkajs';
import type { Committed } from '../log.ts';
import { newCluster } from './clusterAccess.ts';
import type { KafkaCatalog } from './kafkaDeps.ts';
import { BATCH_OVERHEAD_BYTES, type TopicLimits } from './newAppend.ts';
import { Renewable } from './renewable.ts';
import { withRetries } from './retries.ts';
import { describeTopic, type TopicsDeps } from './topics.ts';

export interface BrokerCatalogDeps extends TopicsDeps {
  readonly kafka: Kafka;
}

export class BrokerCatalog implements KafkaCatalog {
  readonly #deps: BrokerCatalogDeps;
  readonly #topics = new Map<string, Promise<TopicLimits>>();
  readonly #clusters: Renewable<Cluster>;

  constructor(deps: BrokerCatalogDeps) {
    this.#deps = deps;
    this.#clusters = new Renewable(() => newCluster(deps.kafka, { readUncommitted: true }));
  }

  /** The same promise to all who ask, so that those who wait for it go on in the order in which they came. */
  limits(topic: string): Promise<TopicLimits> {
    const known = this.#topics.get(topic);
    if (known !== undefined) return known;
    const limits = describeTopic(this.#deps, topic);
    this.#topics.set(topic, limits);
    limits.catch(() => this.forget(topic));
    return limits;
  }

  /** Asks for the topic anew when it is next needed. */
  forget(topic: string): void {
    this.#topics.delete(topic);
  }

  async partitions(topic: string): Promise<number> {
    return (await this.limits(topic)).partitions;
  }

  async maxRecordBytes(topic: string): Promise<number> {
    return (await this.limits(topic)).maxBatchBytes - BATCH_OVERHEAD_BYTES;
  }

  async isCompacted(topic: string): Promise<boolean> {
    return (await this.limits(topic)).isCompacted;
  }

  startOffsets(topic: string): Promise<number[]> {
    return this.#offsets(topic, true);
  }

  endOffsets(topic: string): Promise<number[]> {
    return this.#offsets(topic, false);
  }

  async committed(group: string, topic: string): Promise<(Committed | undefined)[]> {
    const count = await this.partitions(topic);
    const [groupId, name] = [this.#deps.nameOf(group), this.#deps.nameOf(topic)];
    const doing = `what ${groupId} committed of ${name} is not known`;
    return withRetries({ doing, limitMs: LIMIT_MS }, async () => {
      const answers = await this.#deps.admin.use(ANSWER_LIMIT_MS, (admin) =>
        admin.fetchOffsets({ groupId, topics: [name] }),
      );
      const partitions = answers.find((answer) => answer.topic === name)?.partitions ?? [];
      return byPartition(count, partitions, ({ offset, metadata }) =>
        offset === NEVER_COMMITTED ? undefined : { offset: Number(offset), metadata: metadata ?? '' },
      );
    });
  }

  close(): Promise<void> {
    return this.#clusters.close();
  }

  async #offsets(topic: string, fromBeginning: boolean): Promise<number[]> {
    const count = await this.partitions(topic);
    const name = this.#deps.nameOf(topic);
    const doing = `the offsets of ${name} are not known`;
    const partitions = numbers(count).map((partition) => ({ partition }));
    return withRetries({ doing, limitMs: LIMIT_MS }, async () => {
      const answers = await this.#clusters.use(ANSWER_LIMIT_MS, async (cluster) => {
        await cluster.addMultipleTargetTopics([name]);
        await cluster.refreshMetadataIfNecessary();
        return cluster.fetchTopicsOffset([{ topic: name, partitions, fromBeginning }]);
      });
      const answered = answers.find((answer) => answer.topic === name)?.partitions ?? [];
      return byPartition(count, answered, ({ offset }) => Number(offset));
    });
  }
}

/** What the brokers answer where a group never committed. */
const NEVER_COMMITTED = '-1';

const ANSWER_LIMIT_MS = 4000;

const LIMIT_MS = 10_000;

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, partition) => partition);
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
