/** Warns of partitions that somebody added to topics: Kafka takes none away again, so they are there to stay. */
import { TOPICS } from '@questlog/schemas/topics/topics';
import type { AddedPartitions, Log } from '../log/log.ts';
import type { Clock } from '../process/clock.ts';
import type { Health } from '../process/health.ts';

/** Each look asks the brokers. */
const REFRESH_INTERVAL_MS = 30_000;

/** Whoever asks hears what was known at the last look, so that it does not wait for the brokers. */
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

/** A sentence of every topic; undefined where there is none. */
export function addedWarning(added: readonly AddedPartitions[]): string | undefined {
  if (added.length === 0) return undefined;
  const sentences = added.map(({ topic, originalPartitions: madeWith, partitions, records }) => {
    const sentence = `${topic} was made with ${madeWith} partitions and has ${partitions}`;
    if (topic === TOPICS.reportLinks || records === 0) return sentence;
    return `${sentence}: the ${records} records in ${madeWith} to ${partitions - 1} are read by nobody`;
  });
  return `${sentences.join('; ')}. Have other writers use the first partitions only: docs/operating/kafka.md`;
}
