/**
 * Waits at startup while a partition has no leader. A restart would not help, because the new process would have to wait too.
 */
import type { Logger } from '../process/logger.ts';
import { retryUntilAvailable } from '../process/waiting.ts';
import type { Log } from './log.ts';

/**
 * Returns the end offset of a topic with one partition. Waits until the partition has a leader, and logs a warning during the
 * wait.
 */
export function waitForEndOffset(
  log: Pick<Log, 'endOffset'>,
  logger: Logger,
  topic: string,
): Promise<number> {
  const partition = 0;
  return retryUntilAvailable(() => log.endOffset(topic, partition), {
    // This signal never aborts, because a stop ends the process.
    signal: new AbortController().signal,
    onDelay: ({ message }, backoffMs) =>
      logger.warn('start_waits_for_partition', { topic, partition, backoffMs, cause: message }),
  });
}
