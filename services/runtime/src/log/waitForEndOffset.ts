/** Waits at startup for a partition that has no leader, because a restart would have to wait for it too. */
import type { Logger } from '../process/logger.ts';
import { retryUntilAvailable } from '../process/waiting.ts';
import type { Log } from './log.ts';

/** Returns the end offset of a topic with one partition, once the partition has a leader. Logs a warning while it waits. */
export function waitForEndOffset(
  log: Pick<Log, 'endOffset'>,
  logger: Logger,
  topic: string,
): Promise<number> {
  const partition = 0;
  return retryUntilAvailable(() => log.endOffset(topic, partition), {
    // Never aborts: a stop ends the process.
    signal: new AbortController().signal,
    onDelay: ({ message }, backoffMs) =>
      logger.warn('start_waits_for_partition', { topic, partition, backoffMs, cause: message }),
  });
}
