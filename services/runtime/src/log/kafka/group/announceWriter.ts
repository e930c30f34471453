/**
 * Joins a consumer group without consuming records. The group's members are the running processes that write records, with the
 * version of their records, so that `waitForMembers` can find the processes.
 */
import { TOPICS, WRITERS_GROUP } from '@questlog/schemas/topics/topics';
import type { Logger } from '../../../process/logger.ts';
import { settledWithin } from '../../../process/waiting.ts';
import { type KafkaConnection, kafkaClient } from '../client/kafkaClient.ts';
import { Membership } from './membership.ts';

const CLOSE_LIMIT_MS = 3_000;

export interface WriterOptions {
  readonly connection: KafkaConnection;
  /** Prefix of the names of topics and groups. */
  readonly prefix: string;
  readonly logger: Logger;
}

/**
 * Stays a member until `close`. Retries in the background, because a writer also works without its membership. If Kafka does not
 * answer, `close` resolves after `CLOSE_LIMIT_MS`, because a process must stop within 15 s.
 */
export function announceWriter({ connection, prefix, logger }: WriterOptions): Pick<Membership, 'close'> {
  const group = prefix + WRITERS_GROUP;
  const membership = new Membership({
    ...{ kafka: kafkaClient(connection, logger), logger, group },
    // Kafka requires a topic and an assignment, which the members ignore.
    ...{ topics: [prefix + TOPICS.directory], partitions: [0], owned: () => [] },
    onJoin: () => undefined,
    onHeartbeat: () => undefined,
    onLost: () => undefined,
    onFailed: (error) => logger.error('writer_not_announced', error, { group }),
  });
  return { close: () => settledWithin(membership.close(), CLOSE_LIMIT_MS) };
}
