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
  isCompacted(topic: string): Promise<boolean>;
  startOffsets(topic: string): Promise<number[]>;
  /** High watermarks, as of a moment after the call: with everything that was acknowledged before it. */
  endOffsets(topic: string): Promise<number[]>;
  committed(group: string, topic: string): Promise<(Committed | undefined)[]>;
}
