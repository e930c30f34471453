import { TOPICS } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import { ManualClock } from '../log/embedded/testing/testLog.ts';
import { createHealth } from '../process/health.ts';
import { addedWarning, warnOfAddedPartitions } from './addedPartitions.ts';

const added = (topic: string, records: number) => ({ topic, originalPartitions: 2, partitions: 4, records });

test('names each topic with its partitions and the number of unread records', () => {
  expect(addedWarning([])).toBeUndefined();
  const warning = addedWarning([
    added(TOPICS.reportLinks, 3),
    added(TOPICS.events, 5),
    added(TOPICS.sessions, 0),
  ]);
  expect(warning).toBe(
    `${TOPICS.reportLinks} was created with 2 partitions and has 4; ` +
      `${TOPICS.events} was created with 2 partitions and has 4: no consumer reads the 5 records in partitions 2 to 3; ` +
      `${TOPICS.sessions} was created with 2 partitions and has 4. ` +
      'Configure other writers to use only the original partitions: docs/operating/kafka.md',
  );
});

test('warns at once about partitions that exist at the start, later about new ones, and stays ready', async () => {
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
