/** Access to kafkajs's `Cluster`, which can fetch high watermarks. kafkajs passes this object only to partition assigners. */
import { randomUUID } from 'node:crypto';
import kafkajs, { type Cluster, type Kafka } from 'kafkajs';

export interface ClusterOptions {
  /** True if the cluster returns high watermarks as end offsets. False if the cluster returns last stable offsets. */
  readonly readUncommitted?: boolean;
}

export function createCluster(kafka: Kafka, options: ClusterOptions = {}): Cluster {
  let captured: Cluster | undefined;
  kafka.consumer({
    // kafkajs requires a group id for each consumer. This consumer only gives access to the cluster and never joins a group.
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

/** Keeps kafkajs from fetching committed offsets, because kafkajs repeats the fetch without a pause if a leader is missing. */
export function skipOffsetFetch(cluster: Cluster, group: string, topics: readonly string[]): void {
  for (const topic of topics) {
    for (const { partitionId: partition } of cluster.findTopicPartitionMetadata(topic)) {
      (cluster as ClusterInternals).markOffsetAsCommitted({ groupId: group, topic, partition, offset: '0' });
    }
  }
}

/** `markOffsetAsCommitted` is missing in kafkajs's types. The method changes only the state of the client. */
interface ClusterInternals extends Cluster {
  markOffsetAsCommitted(at: { groupId: string; topic: string; partition: number; offset: string }): void;
}
