/** Topics that each lose a partition with each broker, and who leads what of them: for tests that kill brokers. */
import { createTopic, leadersOf } from './createTopic.ts';

export interface UnreplicatedTopics {
  /** @param replicas of each partition. Unless given, there are three: p is on the broker p + 1, and on no other. */
  create(
    topic: string,
    config?: Readonly<Record<string, string>>,
    replicas?: readonly (readonly number[])[],
  ): Promise<void>;
  /** The broker's id, as one of the given brokers knows it; undefined while there is none. */
  leaderOf(topic: string, partition: number): Promise<number | undefined>;
}

/** @param brokers `host:port`, of three with the ids 1, 2 and 3. */
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
