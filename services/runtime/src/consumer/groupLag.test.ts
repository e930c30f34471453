/**
 * Tests the measurement of the lag that ingest makes every ten seconds. `lag.test.ts` tests the lag that the console
 * requests.
 */
import type { ConsumerLag } from '@questlog/schemas/http/health';
import { GROUPS, TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import { aLog, ManualClock } from '../log/embedded/testing/testLog.ts';
import { withMethods, withoutLeader } from '../log/testing/alteredLog.ts';
import { groupLags } from './groupLag.ts';

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
      const looked = await Promise.all(of.map((one) => one.measure(clock.nowMs)));
      return looked.find(({ group }) => group === GROUPS.projectEvents);
    },
  };
}

test('reads nothing for a group that keeps up, and returns the age of the oldest record if the group falls behind', async () => {
  const { log, clock, state, append, at, look } = await aWatchedLog();
  const groups = groupLags({ log, clock }, false);
  expect(await look(groups)).toMatchObject({ lagRecords: 0, lagMs: 0 });
  at(5);
  await append(0, 4);
  at(10);
  state.next = 1;
  // The oldest unprocessed record is the second of four records that arrived in the ten seconds between the measurements.
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

test('estimates nothing at the first measurement', async () => {
  const { log, clock, state, append, at, look } = await aWatchedLog();
  await append(0, 1);
  at(7);
  expect(await look(groupLags({ log, clock }, false))).toMatchObject({ lagRecords: 1, lagMs: 7_000 });
  expect(state.read).toBeGreaterThan(0);
});

test('returns the lag of the other partitions while one has no leader', async () => {
  const { log, clock, append, at, look } = await aWatchedLog();
  for (const partition of [0, 1, 1]) await append(partition, 1);
  at(60);
  const leaderless = withoutLeader(log, 1);
  const groups = groupLags({ log: leaderless.log, clock });
  expect(await look(groups)).toMatchObject({
    ...{ lagRecords: 1, lagMs: 60_000 },
    partitions: [{ partition: 0, offset: 0, lagRecords: 1 }],
  });
  leaderless.electLeader();
  expect(await look(groups)).toMatchObject({ lagRecords: 3, lagMs: 60_000 });
});

test('returns the used share of the current retention, and the records that expired unread', async () => {
  const { log, clock, state, append, at, look } = await aWatchedLog();
  let requestCount = 0;
  const kept = { retentionMs: 100_000, deletedAfterMs: 100_000 };
  const watched = withMethods(log, {
    retention: async () => {
      requestCount += 1;
      return kept;
    },
    offsetRanges: async (topic) => {
      const ranges = await log.offsetRanges(topic);
      return topic === TOPICS.events ? [{ startOffset: 2, endOffset: 4 }, ranges[1]] : ranges;
    },
  });
  await append(0, 4);
  at(10);
  const groups = groupLags({ log: watched, clock }).filter(({ group }) => group === GROUPS.projectEvents);
  expect(await look(groups)).toMatchObject({
    ...{ lagRecords: 2, lagMs: 10_000, retentionMs: 100_000, shareOfRetention: 0.1, lostRecords: 2 },
    partitions: [
      { partition: 0, offset: 2, lagRecords: 2 },
      { partition: 1, offset: 0, lagRecords: 0 },
    ],
  });
  kept.retentionMs = 50_000;
  at(69);
  expect(await look(groups)).toMatchObject({ retentionMs: 100_000 });
  at(70);
  expect(await look(groups)).toMatchObject({ retentionMs: 50_000, shareOfRetention: 1.4 });
  expect(requestCount).toBe(2);
  // A group whose offset is above the start offset has lost no records.
  state.next = 3;
  expect(await look(groups)).toMatchObject({ lagRecords: 1, lostRecords: 0 });
});

test('the oldest record of all partitions counts, and a partition that has caught up does not', async () => {
  const { log, clock, state, append, at, look } = await aWatchedLog();
  const groups = groupLags({ log, clock });
  at(10);
  await append(0, 2);
  at(20);
  await append(1, 1);
  at(30);
  expect(await look(groups)).toMatchObject({ lagRecords: 3, lagMs: 20_000 });
  const { read } = state;
  at(31);
  expect(await look(groups)).toMatchObject({ lagRecords: 3, lagMs: 21_000 });
  expect(state.read).toBe(read);
  state.next = 2;
  at(32);
  expect(await look(groups)).toMatchObject({ lagRecords: 1, lagMs: 12_000 });
});

test('measures exactly for an operator, including records since the last measurement', async () => {
  const { log, clock, append, at, look } = await aWatchedLog();
  const groups = groupLags({ log, clock });
  await look(groups);
  at(5);
  await append(0, 1);
  at(20);
  expect(await look(groups)).toMatchObject({ lagMs: 15_000 });
});

test('does not know the age of many records that arrived between two reads', async () => {
  const { log, clock, state, append, at, look } = await aWatchedLog();
  const groups = groupLags({ log, clock }).filter(({ group }) => group === GROUPS.projectEvents);
  await append(0, 1);
  await look(groups);
  state.next = 1;
  await append(1, 1_001);
  at(9);
  expect(await look(groups)).toMatchObject({ lagRecords: 1_001, lagMs: null, shareOfRetention: null });
});

test('estimates nothing for a partition that had no leader at the last measurement', async () => {
  const { log, clock, state, append, at, look } = await aWatchedLog();
  const leaderless = withoutLeader(log, 1);
  const groups = groupLags({ log: leaderless.log, clock }, false).filter(
    ({ group }) => group === GROUPS.projectEvents,
  );
  await look(groups);
  at(5);
  await append(1, 1);
  at(20);
  leaderless.electLeader();
  expect(await look(groups)).toMatchObject({ lagRecords: 1, lagMs: 15_000 });
  expect(state.read).toBe(1);
});

test('reads the log only every ten seconds if the lag is large', async () => {
  const { log, clock, state, append, at, look } = await aWatchedLog();
  const groups = groupLags({ log, clock }).filter(({ group }) => group === GROUPS.projectEvents);
  await append(0, 1_003);
  at(1);
  expect(await look(groups)).toMatchObject({ lagRecords: 1_003, lagMs: 1_000 });
  expect(state.read).toBe(1);
  at(10);
  state.next = 1;
  // The lag is still the age of the record that was read before.
  expect(await look(groups)).toMatchObject({ lagRecords: 1_002, lagMs: 10_000 });
  expect(state.read).toBe(1);
  at(11);
  state.next = 2;
  expect(await look(groups)).toMatchObject({ lagRecords: 1_001, lagMs: 11_000 });
  state.next = 3;
  at(12);
  // A lag of at most 1,000 records is read at every measurement.
  expect(await look(groups)).toMatchObject({ lagRecords: 1_000, lagMs: 12_000 });
  expect(state.read).toBe(3);
});

test('estimates nothing between distant measurements', async () => {
  const estimated = async (seconds: number) => {
    const { log, clock, state, append, at, look } = await aWatchedLog();
    const groups = groupLags({ log, clock }, false).filter(({ group }) => group === GROUPS.projectEvents);
    await append(0, 4);
    state.next = 4;
    await look(groups);
    at(seconds);
    await append(0, 2);
    const lag = await look(groups);
    return { lagMs: lag?.lagMs, read: state.read };
  };
  // The oldest unprocessed record is the first of two records that arrived between the measurements.
  expect(await estimated(30)).toEqual({ lagMs: 20_000, read: 0 });
  expect(await estimated(31)).toEqual({ lagMs: 0, read: 1 });
});
