/** Access to the `Cluster` of kafkajs, which kafkajs passes only to partition assigners. It fetches high watermarks. */
import { randomUUID } from 'node:crypto';
import kafkajs, { type Cluster, type Kafka } from 'kafkajs';

export interface ClusterOptions {
  /** True if end offsets are high watermarks, false if they are last stable offsets. */
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
 * Marks the group's offsets as committed, so that kafkajs does not fetch them. Call after every join. Otherwise kafkajs
 * fetches offsets even while all partitions are paused, and retries without a pause while a partition has no leader.
 */
export function skipOffsetFetch(cluster: Cluster, group: string, topics: readonly string[]): void {
  for (const topic of topics) {
    for (const { partitionId: partition } of cluster.findTopicPartitionMetadata(topic)) {
      (cluster as ClusterInternals).markOffsetAsCommitted({ groupId: group, topic, partition, offset: '0' });
    }
  }
}

/** Method that kafkajs's types lack. It changes only the client's state and sends no request. */
interface ClusterInternals extends Cluster {
  markOffsetAsCommitted(at: { groupId: string; topic: string; partition: number; offset: string }): void;
}
