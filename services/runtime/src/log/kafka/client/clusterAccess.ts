/**
 * Access to the `Cluster` of kafkajs. kafkajs passes the cluster only to partition assigners. The cluster can fetch high
 * watermarks.
 */
import { randomUUID } from 'node:crypto';
import kafkajs, { type Cluster, type Kafka } from 'kafkajs';

export interface ClusterOptions {
  /** True if end offsets are high watermarks. False if end offsets are last stable offsets. */
  readonly readUncommitted?: boolean;
}

export function createCluster(kafka: Kafka, options: ClusterOptions = {}): Cluster {
  let captured: Cluster | undefined;
  kafka.consumer({
    // The consumer never joins this group.
    groupId: `questlog-offsets-${randomUUID()}`,
    readUncommitted: options.readUncommitted ?? false,
    allowAutoTopicCreation: false,
    partitionAssigners: [
      (config) => {
        captured = config.cluster;
        return kafkajs.PartitionAssigners.roundRobin(config);
      },
    ],
  });
  if (captured === undefined) throw new Error('kafkajs gave no cluster to the partition assigner');
  return captured;
}

/**
 * Marks offsets as committed after a join. Without the mark, kafkajs fetches the offsets. If a leader is missing, kafkajs
 * repeats this fetch without a pause.
 */
export function skipOffsetFetch(cluster: Cluster, group: string, topics: readonly string[]): void {
  for (const topic of topics) {
    for (const { partitionId: partition } of cluster.findTopicPartitionMetadata(topic)) {
      (cluster as ClusterInternals).markOffsetAsCommitted({ groupId: group, topic, partition, offset: '0' });
    }
  }
}

/** Method that is missing in kafkajs's types. The method changes only the client's state and sends no request. */
interface ClusterInternals extends Cluster {
  markOffsetAsCommitted(at: { groupId: string; topic: string; partition: number; offset: string }): void;
}
