/** When a process starts, waits until a partition has a leader. The process does not exit, because a restart would not help. */
import type { Logger } from '../process/logger.ts';
import { retry } from '../process/waiting.ts';
import type { Log } from './log.ts';

/** Returns the end offset of a topic with one partition. While the partition has no leader, logs a warning and waits. */
export function waitForEndOffset(
  log: Pick<Log, 'endOffset'>,
  logger: Logger,
  topic: string,
): Promise<number> {
  const partition = 0;
  // The wait needs no abort signal, because a process that is stopped during the wait ends immediately.
  return retry(() => log.endOffset(topic, partition), {
    onDelay: ({ message }, backoffMs) =>
      logger.warn('start_waits_for_partition', { topic, partition, backoffMs, cause: message }),
  });
}
