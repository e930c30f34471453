/** Creates topics without the log. */
import type { ITopicConfig } from 'kafkajs';
import { silentLogger } from '../../../process/logger.ts';
import { until } from '../../contract/harness.ts';
import { createCluster } from '../client/clusterAccess.ts';
import { kafkaClient } from '../client/kafkaClient.ts';
import { NO_LEADER } from '../client/patches.ts';

/**
 * Creates a topic and waits until each broker knows the leaders of the topic. Brokers learn of a topic one by one. Until then,
 * requests to the other brokers fail.
 * @param brokers all brokers that the test uses, as `host:port`.
 */
export async function createTopic(brokers: readonly string[], topic: ITopicConfig): Promise<void> {
  const admin = clientOf(brokers).admin();
  await admin.connect();
  await admin.createTopics({ topics: [topic], waitForLeaders: false }).finally(() => admin.disconnect());
  const partitions = topic.replicaAssignment?.length ?? topic.numPartitions ?? 1;
  for (const broker of brokers) {
    await until(async () => {
      const leaders = await leadersOf([broker], topic.topic).catch(() => new Map());
      return leaders.size === partitions;
    });
  }
}

/**
 * Returns the broker id of the leader of each partition. Asks only the given brokers, because an admin client would ask any
 * broker.
 */
export async function leadersOf(
  brokers: readonly string[],
  topic: string,
): Promise<ReadonlyMap<number, number>> {
  const cluster = createCluster(clientOf(brokers));
  try {
    await cluster.connect();
    await cluster.addMultipleTargetTopics([topic]);
    const withLeader = cluster.findTopicPartitionMetadata(topic).filter(({ leader }) => leader !== NO_LEADER);
    return new Map(withLeader.map(({ partitionId, leader }) => [partitionId, leader]));
  } finally {
    await cluster.disconnect();
  }
}

function clientOf(brokers: readonly string[]) {
  return kafkaClient({ brokers, clientId: 'questlog-tests' }, silentLogger);
}
