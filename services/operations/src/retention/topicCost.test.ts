/** Tests the estimated bytes of topics on the embedded log. */
import { aLog, ManualClock } from '@questlog/runtime/log/embedded/testing/testLog';
import { TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import { measureTopics } from './topicCost.ts';

const DAY_MS = 86_400_000;

test('returns for each topic its retention days, records, bytes, and bytes per month at the recent rate', async () => {
  const clock = new ManualClock();
  const log = await aLog({ clock });
  await log.ensureTopics(topicDefinitions(2));
  for (const partition of [0, 1]) {
    const records = Array.from({ length: 5 }, () => ({ key: 'key', value: Buffer.alloc(97) }));
    await log.append(TOPICS.events, partition, records);
  }

  const topics = await measureTopics(log, clock.nowMs + 2 * DAY_MS);

  const of = (topic: string) => topics.find(({ name }) => name === topic);
  expect(of(TOPICS.events)).toEqual({
    ...{ name: TOPICS.events, days: 7, records: 10, bytes: 1_000, bytesAMonth: 15_000 },
  });
  expect(of(TOPICS.deadLetters)).toMatchObject({ days: 30, records: 0, bytes: 0, bytesAMonth: 0 });
  expect(of(TOPICS.directory)).toMatchObject({ days: null });
  expect(topics).toHaveLength(Object.keys(TOPICS).length);
});
