import { TOPICS } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import { ManualClock } from '../log/embedded/testing/testLog.ts';
import { createHealth } from '../process/health.ts';
import { addedWarning, warnOfAddedPartitions } from './addedPartitions.ts';

const added = (topic: string, records: number) => ({ topic, originalPartitions: 2, partitions: 4, records });

test('names each topic with its partitions, and what is read by nobody', () => {
  expect(addedWarning([])).toBeUndefined();
  const said = addedWarning([
    added(TOPICS.reportLinks, 3),
    added(TOPICS.events, 5),
    added(TOPICS.sessions, 0),
  ]);
  expect(said).toBe(
    `${TOPICS.reportLinks} was made with 2 partitions and has 4; ` +
      `${TOPICS.events} was made with 2 partitions and has 4: the 5 records in 2 to 3 are read by nobody; ` +
      `${TOPICS.sessions} was made with 2 partitions and has 4. ` +
      'Have other writers use the first partitions only: docs/operating/kafka.md',
  );
});

test('warns of what was there at the start at once, of what comes later at a later look, and stays ready', async () => {
  const [clock, health] = [new ManualClock(), createHealth()];
  let there = [added(TOPICS.events, 0)];
  const warned = async () => (await health.state()).warnings['partitions_were_added'];
  await warnOfAddedPartitions({ log: { addedPartitions: async () => there }, clock, health });
  expect(await warned()).toContain(TOPICS.events);
  there = [added(TOPICS.sessions, 0)];
  expect(await warned()).toContain(TOPICS.events);
  clock.nowMs += 30_000;
  await expect.poll(warned).toContain(TOPICS.sessions);
  expect((await health.state()).problems).toEqual({});
});
