/** Topics that each lose a partition with each broker, and who leads what of them: for tests that kill brokers. */
import { silentLogger } from '../../../process/logger.ts';
import { until } from '../../contract/harness.ts';
import { newCluster } from '../client/clusterAccess.ts';
import { kafkaClient } from '../client/kafkaClient.ts';
import { NO_LEADER } from '../client/patches.ts';

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
  const kafka = kafkaClient({ brokers, clientId: 'questlog-tests' }, silentLogger);
  // An admin asks any broker of the cluster, also one that stands still.
  const leaderOf = async (topic: string, partition: number) => {
    const cluster = newCluster(kafka);
    try {
      await cluster.connect();
      await cluster.addMultipleTargetTopics([topic]);
      const partitions = cluster.findTopicPartitionMetadata(topic);
      const leader = partitions.find(({ partitionId }) => partitionId === partition)?.leader;
      return leader === undefined || leader === NO_LEADER ? undefined : leader;
    } finally {
      await cluster.disconnect();
    }
  };
  return {
    leaderOf,
    create: async (topic, config = {}, replicas = [[1], [2], [3]]) => {
      const replicaAssignment = replicas.map((own, partition) => ({ partition, replicas: [...own] }));
      const configEntries = Object.entries(config).map(([name, value]) => ({ name, value }));
      const admin = kafka.admin();
      await admin.connect();
      const topics = [{ topic, replicaAssignment, configEntries }];
      await admin.createTopics({ topics, waitForLeaders: false }).finally(() => admin.disconnect());
      // Brokers learn of it one after the other.
      const isLed = async (partition: number) => (await leaderOf(topic, partition)) !== undefined;
      for (const partition of replicas.keys()) await until(() => isLed(partition).catch(() => false));
    },
  };
}
