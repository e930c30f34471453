/** Topics that each lose a partition with each broker, and who leads what of them: for tests that kill brokers. */
import type { Admin } from 'kafkajs';
import { silentLogger } from '../../../process/logger.ts';
import { kafkaClient } from '../client/kafkaClient.ts';

export interface UnreplicatedTopics {
  /** Has three partitions: p is on the broker p + 1, and on no other. */
  create(topic: string, config?: Readonly<Record<string, string>>): Promise<void>;
  /** The broker's id; undefined while there is none. */
  leaderOf(topic: string, partition: number): Promise<number | undefined>;
}

/** @param brokers `host:port` of three with the ids 1, 2 and 3. */
export function unreplicatedTopics(brokers: readonly string[]): UnreplicatedTopics {
  const withAdmin = async <T>(use: (admin: Admin) => Promise<T>): Promise<T> => {
    const admin = kafkaClient({ brokers, clientId: 'questlog-tests' }, silentLogger).admin();
    await admin.connect();
    return use(admin).finally(() => admin.disconnect());
  };
  return {
    create: (topic, config = {}) =>
      withAdmin(async (admin) => {
        const replicaAssignment = [0, 1, 2].map((partition) => ({ partition, replicas: [partition + 1] }));
        const configEntries = Object.entries(config).map(([name, value]) => ({ name, value }));
        await admin.createTopics({ topics: [{ topic, replicaAssignment, configEntries }] });
      }),
    leaderOf: (topic, partition) =>
      withAdmin(async (admin) => {
        const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
        const leader = topics[0]?.partitions.find(({ partitionId }) => partitionId === partition)?.leader;
        return leader === undefined || leader < 0 ? undefined : leader;
      }),
  };
}
