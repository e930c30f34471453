/** Warns operators about partitions that were added to a topic after its creation. Kafka cannot remove such partitions. */
import { TOPICS } from '@questlog/schemas/topics/topics';
import type { AddedPartitions, Log } from '../log/log.ts';
import type { Clock } from '../process/clock.ts';
import type { Health } from '../process/health.ts';

const REFRESH_INTERVAL_MS = 30_000;

/** Registers a health warning about partitions that were added to a topic. The warning is refreshed in the background. */
export async function warnOfAddedPartitions(deps: {
  log: Pick<Log, 'addedPartitions'>;
  clock: Clock;
  health: Health;
}): Promise<void> {
  const { log, clock, health } = deps;
  let warning: string | undefined;
  let refreshedAtMs = clock.now();
  const refresh = async (): Promise<void> => {
    warning = addedWarning(await log.addedPartitions());
  };
  health.warn('partitions_were_added', () => {
    if (Math.abs(clock.now() - refreshedAtMs) >= REFRESH_INTERVAL_MS) {
      refreshedAtMs = clock.now();
      refresh().catch(() => {});
    }
    return warning;
  });
  await refresh().catch(() => {});
}

export function addedWarning(added: readonly AddedPartitions[]): string | undefined {
  if (added.length === 0) return undefined;
  const sentences = added.map(({ topic, originalPartitions, partitions, records }) => {
    const sentence = `${topic} was created with ${originalPartitions} partitions and has ${partitions}`;
    if (topic === TOPICS.reportLinks || records === 0) return sentence;
    return `${sentence}: no consumer reads the ${records} records in partitions ${originalPartitions} to ${partitions - 1}`;
  });
  return `${sentences.join('; ')}. Configure other writers to use only the original partitions: docs/operating/kafka.md`;
}
