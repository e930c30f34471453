import { tmpdir } from 'node:os';
import { aLog, ManualClock } from '@questlog/runtime/log/embedded/testing/testLog';
import type { Log } from '@questlog/runtime/log/log';
import { withMethods } from '@questlog/runtime/log/testing/alteredLog';
import type { ConsumerLag, LagOutput } from '@questlog/schemas/http/health';
import { GROUPS, TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import { lagReader } from './lag.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

/** Creates a log with two partitions. Partition 0 has three events, at 0 s, 10 s, and 20 s. Partition 1 has two events at 5 s. */
async function createLog(): Promise<{ clock: ManualClock; log: Log; beganMs: number }> {
  const clock = new ManualClock();
  const beganMs = clock.nowMs;
  const log = await aLog({ clock });
  await log.ensureTopics(topicDefinitions(2));
  const append = async (partition: number, atSeconds: number, count = 1): Promise<void> => {
    clock.nowMs = beganMs + atSeconds * 1000;
    const records = Array.from({ length: count }, () => ({
      key: 'a tenant',
      value: Buffer.from('an event'),
    }));
    await log.append(TOPICS.events, partition, records);
  };
  await append(0, 0);
  await append(1, 5, 2);
  await append(0, 10);
  await append(0, 20);
  clock.nowMs = beganMs + 60_000;
  return { clock, log, beganMs };
}

async function commit(log: Log, group: string, offsets: readonly number[]): Promise<void> {
  const done = offsets.map(() => Promise.withResolvers<void>());
  const consumer = await log.consume({
    group,
    topics: [TOPICS.events],
    process: async (owned) => {
      await owned.commit(TOPICS.events, { offset: offsets[owned.partition] ?? 0, metadata: '' });
      done[owned.partition]?.resolve();
    },
  });
  await Promise.all(done.map(({ promise }) => promise));
  await consumer.stop();
}

function eventsLag({ consumers }: Pick<LagOutput, 'consumers'>, group: string): ConsumerLag | undefined {
  return consumers.find((one) => one.group === group && one.topic === TOPICS.events);
}

test('returns the exact number of unprocessed records of each group, and the age of the oldest', async () => {
  const { clock, log } = await createLog();
  const getLag = lagReader({ log, clock, dataDir: undefined });
  await commit(log, GROUPS.projectEvents, [1, 0]);
  const first = await getLag();
  expect(eventsLag(first, GROUPS.projectEvents)).toEqual({
    group: GROUPS.projectEvents,
    topic: TOPICS.events,
    lagRecords: 4,
    lagMs: 55_000,
    retentionMs: 7 * DAY_MS,
    shareOfRetention: 55_000 / (7 * DAY_MS),
    lostRecords: 0,
    partitions: [
      { partition: 0, offset: 1, lagRecords: 2 },
      { partition: 1, offset: 0, lagRecords: 2 },
    ],
  });
  expect(eventsLag(first, GROUPS.link)).toMatchObject({ lagRecords: 5, lagMs: 60_000 });
  expect(first.consumers.filter(({ topic }) => topic !== TOPICS.events)).toHaveLength(5);

  clock.nowMs += 1_000;
  await commit(log, GROUPS.projectEvents, [1, 2]);
  expect(eventsLag(await getLag(), GROUPS.projectEvents)).toMatchObject({ lagRecords: 2, lagMs: 51_000 });
  clock.nowMs += 1_000;
  await commit(log, GROUPS.projectEvents, [3, 2]);
  expect(eventsLag(await getLag(), GROUPS.projectEvents)).toMatchObject({ lagRecords: 0, lagMs: 0 });
});

test('counts the records that retention removed before a group read them', async () => {
  const { clock, log } = await createLog();
  const trimmed = withMethods(log, {
    offsetRanges: async (topic) => {
      const ranges = await log.offsetRanges(topic);
      return topic === TOPICS.events ? ranges.with(0, { startOffset: 2, endOffset: 3 }) : ranges;
    },
  });
  await commit(log, GROUPS.projectEvents, [1, 2]);
  const answer = await lagReader({ log: trimmed, clock, dataDir: tmpdir() })();
  expect(answer.disk?.freeBytes).toBeGreaterThan(0);
  expect(eventsLag(answer, GROUPS.projectEvents)).toMatchObject({ lostRecords: 1, lagRecords: 1 });
});

test('reads the log at most once per second', async () => {
  const { clock, log } = await createLog();
  let calls = 0;
  const counting = withMethods(log, {
    committed: async (group, topic) => {
      calls += 1;
      return await log.committed(group, topic);
    },
  });
  const getLag = lagReader({ log: counting, clock, dataDir: undefined });
  await Promise.all(Array.from({ length: 50 }, getLag));
  const once = calls;
  clock.nowMs += 999;
  await getLag();
  expect(calls).toBe(once);
  clock.nowMs += 1;
  await getLag();
  expect(calls).toBe(2 * once);
  // The cached answer also expires after the clock is set back.
  clock.nowMs -= 3_600_000;
  await getLag();
  expect(calls).toBe(3 * once);
});

test('answers again after the log was unavailable', async () => {
  const { clock, log } = await createLog();
  let isAway = true;
  const away = withMethods(log, {
    offsetRanges: async (topic) => {
      if (isAway) throw new Error('away');
      return await log.offsetRanges(topic);
    },
  });
  const getLag = lagReader({ log: away, clock, dataDir: undefined });
  await expect(getLag()).rejects.toThrow('away');
  isAway = false;
  expect(eventsLag(await getLag(), GROUPS.link)).toMatchObject({ lagRecords: 5 });
});
