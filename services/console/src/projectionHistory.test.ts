import { aLog, ManualClock } from '@questlog/runtime/log/embedded/testing/testLog';
import { withMethods } from '@questlog/runtime/log/testing/alteredLog';
import { TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import { watchProjection } from './projectionHistory.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

test('returns the share of late measurements of the last day, and counts a failed measurement as late', async () => {
  const clock = new ManualClock();
  const log = await aLog({ clock });
  await log.ensureTopics(topicDefinitions(1));
  let isAway = false;
  let measured = 0;
  const watched = withMethods(log, {
    offsetRanges: async (topic) => {
      measured += 1;
      if (isAway) throw new Error('away');
      return await log.offsetRanges(topic);
    },
  });
  const history = watchProjection({ log: watched, clock }, 1);
  onTestFinished(() => history.stop());
  const measures = async (): Promise<void> => {
    const before = measured;
    await expect.poll(() => measured).toBeGreaterThan(before + 1);
  };
  await measures();
  const first = history.current();
  expect(first?.lateShare).toBe(0);

  await log.append(TOPICS.events, 0, [{ key: 'a tenant', value: Buffer.from('an event') }]);
  clock.nowMs += 60_000;
  await measures();
  expect(history.current()?.lateShare).toBeGreaterThan(0);
  expect(history.current()?.since).toBe(first?.since);

  isAway = true;
  clock.nowMs += DAY_MS;
  await measures();
  expect(history.current()?.lateShare).toBe(1);
});
