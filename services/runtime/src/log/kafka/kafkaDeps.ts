/** What the parts of the Kafka adapter share. */
import type { Kafka } from 'kafkajs';
import type { Logger } from '../../process/logger.ts';
import type { Committed } from '../log.ts';

export interface KafkaDeps {
  readonly kafka: Kafka;
  readonly catalog: KafkaCatalog;
  readonly logger: Logger;
  /** The name on the cluster of a topic, a group or a transactional id: with the deployment's prefix. */
  nameOf(name: string): string;
}

/** Topics and offsets as the brokers know them. Names go in without the prefix. */
export interface KafkaCatalog {
  /** @throws Error for a topic that is not there; Unavailable when no broker answers. */
  partitions(topic: string): Promise<number>;
  /** Of one record with key, value and headers; the topic's `max.message.bytes` less what a batch takes. */
  maxRecordBytes(topic: string): Promise<number>;
  isCompacted(topic: string): Promise<boolean>;
  startOffsets(topic: string): Promise<number[]>;
  /** High watermarks. */
  endOffsets(topic: string): Promise<number[]>;
  committed(group: string, topic: string): Promise<(Committed | undefined)[]>;
}
