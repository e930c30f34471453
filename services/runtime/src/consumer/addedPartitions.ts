/** Warns of partitions that somebody added to topics: Kafka takes none away again, so they are there to stay. */
import { TOPICS } from '@questlog/schemas/topics/topics';
import type { AddedPartitions, Log } from '../log/log.ts';
import type { Clock } from '../process/clock.ts';
import type { Health } from '../process/health.ts';

/** Each look asks the brokers. */
const LOOK_EVERY_MS = 30_000;

/** Whoever asks hears what was known at the last look, so that it does not wait for the brokers. */
export async function warnOfAddedPartitions(deps: {
  log: Pick<Log, 'addedPartitions'>;
  clock: Clock;
  health: Health;
}): Promise<void> {
  const { log, clock, health } = deps;
  let known: string | undefined;
  let lookedAtMs = clock.now();
  const look = async (): Promise<void> => {
    known = addedWarning(await log.addedPartitions());
  };
  health.warn('partitions_were_added', () => {
    if (Math.abs(clock.now() - lookedAtMs) >= LOOK_EVERY_MS) {
      lookedAtMs = clock.now();
      look().catch(() => {});
    }
    return known;
  });
  await look().catch(() => {});
}

/** A sentence of every topic; undefined where there is none. */
export function addedWarning(added: readonly AddedPartitions[]): string | undefined {
  if (added.length === 0) return undefined;
  const told = added.map(({ topic, originalPartitions: madeWith, partitions, records }) => {
    const of = `${topic} was made with ${madeWith} partitions and has ${partitions}`;
    if (topic === TOPICS.reportLinks || records === 0) return of;
    return `${of}: the ${records} records in ${madeWith} to ${partitions - 1} are read by nobody`;
  });
  return `${told.join('; ')}. Have other writers use the first partitions only: docs/operating/kafka.md`;
}
