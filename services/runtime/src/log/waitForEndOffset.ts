/** Waits for a partition that a start cannot do without: another start would wait for it as well. */
import type { Logger } from '../process/logger.ts';
import { retryUntilAvailable } from '../process/waiting.ts';
import type { Log } from './log.ts';

/** The end of a topic of one partition, once that has a leader. Until then the log says what is waited for. */
export function waitForEndOffset(
  log: Pick<Log, 'endOffset'>,
  logger: Logger,
  topic: string,
): Promise<number> {
  const partition = 0;
  return retryUntilAvailable(() => log.endOffset(topic, partition), {
    // A stop ends the process.
    signal: new AbortController().signal,
    onDelay: ({ message }, backoffMs) =>
      logger.warn('start_waits_for_partition', { topic, partition, backoffMs, cause: message }),
  });
}
