/** How far groups are behind, as an ingest asks every ten seconds; `lagRoute.test.ts` has what the console asks. */
import { GROUPS, TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import { aLog, ManualClock } from '../log/embedded/testing/testLog.ts';
import { leaderless, withMethods } from '../log/testing/withMethods.ts';
import { type ConsumerLag, groupLags } from './groupLag.ts';

const BEGAN_MS = new ManualClock().nowMs;

async function aWatchedLog() {
  const clock = new ManualClock();
  const log = await aLog({ clock });
  await log.ensureTopics(topicDefinitions(2));
  const records = (count: number) =>
    Array.from({ length: count }, () => ({ key: null, value: Buffer.from('an event') }));
  const state = { read: 0, next: 0 };
  const watched = withMethods(log, {
    committed: async (group, topic) =>
      topic === TOPICS.events
        ? [{ offset: state.next, metadata: '' }, undefined]
        : await log.committed(group, topic),
    tail: (options) => {
      state.read += 1;
      return log.tail(options);
    },
  });
  return {
    ...{ log: watched, clock, state },
    append: async (partition: number, count: number) => {
      await log.append(TOPICS.events, partition, records(count));
    },
    at: (seconds: number) => {
      clock.nowMs = BEGAN_MS + seconds * 1000;
    },
    look: async (of: ReturnType<typeof groupLags>): Promise<ConsumerLag | undefined> => {
      const looked = await Promise.all(of.map((one) => one.look(clock.nowMs)));
      return looked.find(({ group }) => group === GROUPS.projectEvents);
    },
  };
}

test('reads nothing of a group that keeps up, and where one falls behind tells the age of the oldest record', async () => {
  const { log, clock, state, append, at, look } = await aWatchedLog();
  const groups = groupLags({ log, clock }, false);
  expect(await look(groups)).toMatchObject({ lagRecords: 0, lagMs: 0 });
  at(5);
  await append(0, 4);
  at(10);
  state.next = 1;
  // The second of four that came within ten seconds.
  expect(await look(groups)).toMatchObject({ lagRecords: 3, lagMs: 6_000 });
  expect(state.read).toBe(0);
  at(20);
  state.next = 2;
  expect(await look(groups)).toMatchObject({ lagRecords: 2, lagMs: 15_000 });
  expect(state.read).toBeGreaterThan(0);
  const read = state.read;
  at(3_600);
  expect(await look(groups)).toMatchObject({ lagRecords: 2, lagMs: 3_595_000 });
  expect(state.read).toBe(read);
});

test('tells the lag of the other partitions while one has no leader', async () => {
  const { log, clock, append, at, look } = await aWatchedLog();
  for (const partition of [0, 1, 1]) await append(partition, 1);
  at(60);
  const sick = leaderless(log, 1);
  const groups = groupLags({ log: sick.log, clock });
  expect(await look(groups)).toMatchObject({
    ...{ lagRecords: 1, lagMs: 60_000 },
    partitions: [{ partition: 0, offset: 0, lagRecords: 1 }],
  });
  sick.lead();
  expect(await look(groups)).toMatchObject({ lagRecords: 3, lagMs: 60_000 });
});
