/** Topics that a test makes itself, past the log. */
import type { ITopicConfig } from 'kafkajs';
import { silentLogger } from '../../../process/logger.ts';
import { until } from '../../contract/harness.ts';
import { createCluster } from '../client/clusterAccess.ts';
import { kafkaClient } from '../client/kafkaClient.ts';
import { NO_LEADER } from '../client/patches.ts';

/**
 * Returns once each broker knows who leads each partition: they learn of a topic one after the other, and a request
 * to one that has not fails, in kafkajs also the one that creates it and waits for its leaders.
 *
 * @param brokers `host:port`, all that the test asks later.
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

/** Partitions that have one, with its broker's id, as one of the given brokers knows it: an admin would ask any of the cluster. */
export async function leadersOf(
  brokers: readonly string[],
  topic: string,
): Promise<ReadonlyMap<number, number>> {
  const cluster = createCluster(clientOf(brokers));
  try {
    await cluster.connect();
    await cluster.addMultipleTargetTopics([topic]);
    const led = cluster.findTopicPartitionMetadata(topic).filter(({ leader }) => leader !== NO_LEADER);
    return new Map(led.map(({ partitionId, leader }) => [partitionId, leader]));
  } finally {
    await cluster.disconnect();
  }
}

function clientOf(brokers: readonly string[]) {
  return kafkaClient({ brokers, clientId: 'questlog-tests' }, silentLogger);
}
