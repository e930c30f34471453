/**
 * Gives what kafkajs knows as a `Cluster`: it hands one to the factory of a partition assigner, and nowhere else, and
 * only there offsets can be asked for up to the high watermark.
 */
import { randomUUID } from 'node:crypto';
import kafkajs, { type Cluster, type Kafka } from 'kafkajs';

export interface ClusterOptions {
  /** Offsets end at the high watermark, otherwise at the last stable offset. */
  readonly readUncommitted?: boolean;
}

/** Not connected yet. */
export function createCluster(kafka: Kafka, options: ClusterOptions = {}): Cluster {
  let captured: Cluster | undefined;
  kafka.consumer({
    // Never joined, so no broker hears of it.
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
 * Tells kafkajs where a group is that only keeps its membership. Its consumer would ask where to begin, also where all is
 * paused; and again and again without a pause, as long as a partition has no leader that could answer. Per join.
 */
export function skipOffsetFetch(cluster: Cluster, group: string, topics: readonly string[]): void {
  for (const topic of topics) {
    for (const { partitionId: partition } of cluster.findTopicPartitionMetadata(topic)) {
      (cluster as ClusterInternals).markOffsetAsCommitted({ groupId: group, topic, partition, offset: '0' });
    }
  }
}

/** It is missing in kafkajs's types. Nothing is sent: it is what the client takes for committed. */
interface ClusterInternals extends Cluster {
  markOffsetAsCommitted(at: { groupId: string; topic: string; partition: number; offset: string }): void;
}
