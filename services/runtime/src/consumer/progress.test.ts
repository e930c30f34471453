import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { type EmbeddedExtras, openEmbeddedLog } from '../log/embedded/embeddedLog.ts';
import type { Log, OwnedPartition } from '../log/log.ts';
import { positionsOf } from '../log/projection/projection.ts';
import { withMethods, withoutLeader } from '../log/testing/alteredLog.ts';
import { createHealth, type Health } from '../process/health.ts';
import { checkProgress, watchProgress } from './progress.ts';

const HOUR_MS = 60 * 60 * 1000;
const TOPIC = 'progress';

let directory: string;
let log: Log & EmbeddedExtras;
let nowMs = 0;
const clock = { now: () => nowMs };

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'progress-'));
  log = await openEmbeddedLog({ directory, clock });
  await log.ensureTopics([
    { name: TOPIC, partitions: 1, cleanup: { policy: 'delete', retentionMs: 1e12 }, maxRecordBytes: 1e6 },
  ]);
});

afterEach(async () => {
  await log.close();
  rmSync(directory, { recursive: true, force: true });
});

const append = () => log.append(TOPIC, 0, [{ key: null, value: Buffer.from('x') }]);

test('reports a partition that has lag and does not advance', async () => {
  const look = watchProgress({ log, clock, group: 'g', topic: TOPIC });
  await append();
  expect((await look()).problem).toBeUndefined();
  nowMs += HOUR_MS;
  expect((await look()).problem).toContain('has not advanced on progress/0');
  expect((await look()).lagRecords).toBe(1);
});

test('does not count an idle hour as the waiting time of the next record', async () => {
  const look = watchProgress({ log, clock, group: 'g', topic: TOPIC });
  expect((await look()).problem).toBeUndefined();
  nowMs += HOUR_MS;
  await append();
  expect((await look()).problem).toBeUndefined();
});

test('does not count the time before a truncation that left no lag', async () => {
  const look = watchProgress({ log, clock, group: 'g', topic: TOPIC });
  await append();
  expect((await look()).problem).toBeUndefined();
  await log.truncate(TOPIC, 0, 0);
  expect((await look()).problem).toBeUndefined();
  nowMs += HOUR_MS;
  await append();
  expect((await look()).problem).toBeUndefined();
});

test('reports a partition that has not advanced for 30 s, and no partition that advances', async () => {
  const look = watchProgress({ log, clock, group: 'g', topic: TOPIC });
  for (let i = 0; i < 5; i++) await append();
  const consumer = await aMember('g');
  for (const offset of [1, 2]) {
    expect((await look()).problem).toBeUndefined();
    nowMs += 30_000;
    expect((await look()).problem).toBeUndefined();
    await consumer.commit(offset);
    nowMs += HOUR_MS;
  }
  expect((await look()).problem).toBeUndefined();
  expect((await look()).lagRecords).toBe(3);
  nowMs += 30_001;
  expect((await look()).problem).toBe(
    'g has not advanced on progress/0 since offset 2, and is 3 records behind',
  );
  await consumer.commit(5);
  expect((await look()).problem).toBeUndefined();
  expect((await look()).lagRecords).toBe(0);
  await consumer.stop();
});

test('ignores a partition without a leader, and watches the others', async () => {
  const topic = 'two';
  const cleanup = { policy: 'delete', retentionMs: 1e12 } as const;
  await log.ensureTopics([{ name: topic, partitions: 2, cleanup, maxRecordBytes: 1e6 }]);
  for (const partition of [0, 1, 1])
    await log.append(topic, partition, [{ key: null, value: Buffer.from('x') }]);
  const leaderless = withoutLeader(log, 1);
  const look = watchProgress({ log: leaderless.log, clock, group: 'g', topic });
  expect(await look()).toEqual({ lagRecords: 1, problem: undefined });
  nowMs += HOUR_MS;
  expect((await look()).problem).toContain('has not advanced on two/0');
  leaderless.electLeader();
  expect((await look()).lagRecords).toBe(3);
});

test('does not count the time in which a partition had no leader', async () => {
  let isLed = true;
  const leaderless = withMethods(log, {
    offsetRanges: async (topic) => (isLed ? await log.offsetRanges(topic) : [undefined]),
  });
  const look = watchProgress({ log: leaderless, clock, group: 'g', topic: TOPIC });
  await append();
  expect((await look()).problem).toBeUndefined();
  isLed = false;
  nowMs += HOUR_MS;
  expect((await look()).problem).toBeUndefined();
  isLed = true;
  expect((await look()).problem).toBeUndefined();
  nowMs += 30_001;
  expect((await look()).problem).toContain('has not advanced');
});

test('a group’s position is its commit or the start of the partition', async () => {
  const requests: string[] = [];
  const of = {
    committed: async () => [{ offset: 7, metadata: '' }, undefined, { offset: 0, metadata: '' }],
    offsetRanges: async () => {
      requests.push('offsetRanges');
      return [3, 4, 5].map((startOffset) => ({ startOffset, endOffset: 9 }));
    },
  };
  expect(await positionsOf(of, 'g', TOPIC)).toEqual([7, 4, 0]);
  expect(requests).toHaveLength(1);
  // Only partition 1 lacks a commit. Its start offset would cost a request to every broker, and the filter excludes it.
  expect(await positionsOf(of, 'g', TOPIC, (partition) => partition !== 1)).toEqual([7, 0, 0]);
  expect(requests).toHaveLength(1);
  const leaderless = { ...of, offsetRanges: async () => [undefined, undefined, undefined] };
  expect(await positionsOf(leaderless, 'g', TOPIC)).toEqual([7, 0, 0]);
});

test('measures progress by itself, so that the first request reports a partition that has long been stalled', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const health = createHealth();
  const lags: number[] = [];
  const checked = {
    group: 'g',
    topic: TOPIC,
    name: 'linker',
    activityOf: () => 'waits for records for 40 s',
  };
  const end = checkProgress({ log, clock, health }, checked, (lag) => lags.push(lag));
  await append();
  vi.advanceTimersByTime(5_000);
  await expect.poll(() => lags).toEqual([1]);
  nowMs += HOUR_MS;
  expect(await problemOf(health)).toContain('1 records behind; this process waits for records for 40 s');
  end();
  vi.advanceTimersByTime(60_000);
  expect(await problemOf(health)).toContain('has not advanced');
  expect(lags).toEqual([1, 1, 1]);
});

async function problemOf(health: Health): Promise<string | undefined> {
  return (await health.state()).problems['linker'];
}

/** Returns a member of the group that owns the partition and commits on demand. */
async function aMember(group: string) {
  const assigned = Promise.withResolvers<OwnedPartition>();
  const consumer = await log.consume({
    group,
    topics: [TOPIC],
    process: async (owned) => {
      assigned.resolve(owned);
      while (!owned.signal.aborted)
        await owned.read({ topic: TOPIC, waitMs: 10, maxRecords: 10, maxBytes: 1_000 });
    },
  });
  const owned = await assigned.promise;
  return {
    stop: () => consumer.stop(),
    commit: async (offset: number) => {
      await expect.poll(() => owned.position(TOPIC)).toBeGreaterThanOrEqual(offset);
      await owned.commit(TOPIC, { offset, metadata: '' });
    },
  };
}
