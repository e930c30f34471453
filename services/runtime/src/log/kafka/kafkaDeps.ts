/** Types that the parts of the Kafka adapter share. */
import type { Kafka } from 'kafkajs';
import type { Logger } from '../../process/logger.ts';
import type { OffsetRange } from '../cursor.ts';
import type { Committed } from '../log.ts';

export interface KafkaDeps {
  readonly kafka: Kafka;
  readonly catalog: KafkaCatalog;
  readonly logger: Logger;
  /** The name on the cluster of a topic, a group or a transactional id: with the deployment's prefix. */
  nameOf(name: string): string;
}

/** The limits of a topic, as the brokers have them. */
export interface TopicLimits {
  /** The name without the prefix. */
  readonly topic: string;
  readonly partitions: number;
  /** The topic's `max.message.bytes`: of one batch. */
  readonly maxBatchBytes: number;
  readonly isCompacted: boolean;
}

/** Topics and offsets as the brokers know them. Names go in without the prefix. */
export interface KafkaCatalog {
  /** @throws Error for a topic that is not there; Unavailable when no broker answers. */
  limits(topic: string): Promise<TopicLimits>;
  /**
   * Per partition, the oldest offset and the high watermark, as of a moment after the call: with everything that was
   * acknowledged before it. Undefined of a partition that no broker leads now.
   */
  ranges(topic: string): Promise<(OffsetRange | undefined)[]>;
  committed(group: string, topic: string): Promise<(Committed | undefined)[]>;
}
