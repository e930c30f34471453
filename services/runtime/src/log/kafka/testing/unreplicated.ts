/** Topics without replicas, for tests that kill brokers. */
import { createTopic, leadersOf } from './createTopic.ts';

export interface UnreplicatedTopics {
  /**
   * Creates a topic.
   * @param replicas the broker ids of each partition. By default, there are three partitions, and partition p is on broker p +
   *   1.
   */
  create(
    topic: string,
    config?: Readonly<Record<string, string>>,
    replicas?: readonly (readonly number[])[],
  ): Promise<void>;
  /** Returns the broker id of the leader, as reported by one of the brokers. Undefined if the partition has no leader. */
  leaderOf(topic: string, partition: number): Promise<number | undefined>;
}

/** @param brokers the addresses (`host:port`) of the three brokers with the ids 1, 2, and 3. */
export function unreplicatedTopics(brokers: readonly string[]): UnreplicatedTopics {
  return {
    leaderOf: async (topic, partition) => (await leadersOf(brokers, topic)).get(partition),
    create: async (topic, config = {}, replicas = [[1], [2], [3]]) => {
      const replicaAssignment = replicas.map((own, partition) => ({ partition, replicas: [...own] }));
      const configEntries = Object.entries(config).map(([name, value]) => ({ name, value }));
      await createTopic(brokers, { topic, replicaAssignment, configEntries });
    },
  };
}
