/**
 * Tests that a dead letter contains its complete record and its cause, and is stored once. Tests that a consumer stops before
 * all records of a topic become dead letters.
 */
import { type DeadLetter, deadLetter } from '@questlog/schemas/topics/deadLetter';
import { APPEND_ID_HEADER, TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test, vi } from 'vitest';
import { aLog, ManualClock } from '../log/embedded/testing/testLog.ts';
import type { Log, LogRecord } from '../log/log.ts';
import { withMethods, withoutLeader, withPausedTails } from '../log/testing/alteredLog.ts';
import { Invalid, Unavailable } from '../process/errors.ts';
import { silentLogger } from '../process/logger.ts';
import { openLogRegistry } from '../registry/logRegistry.ts';
import { createCodec } from '../registry/registry.ts';
import { openDeadLetters } from './deadLetters.ts';

const PARTITIONS = 3;
const SOURCE = { topic: 'topic', partition: 4 };

function aRecord(offset: number, of: Partial<LogRecord> = {}): LogRecord {
  return { offset, timestampMs: 0, key: 'tenant', value: Buffer.from('a payload'), headers: {}, ...of };
}

const unreadable = (message = 'unreadable', cause?: unknown): Invalid => new Invalid(message, { cause });

async function aGroup({ group = 'group', on = (log: Log): Log => log } = {}) {
  const whole = await aLog();
  await whole.ensureTopics(topicDefinitions(PARTITIONS));
  const registry = await openLogRegistry(whole);
  const logged: unknown[] = [];
  const clock = new ManualClock();
  const open = async (name: string) => {
    const openLetters = await openDeadLetters({
      ...{ log: on(whole), registry, clock, group: name },
      logger: { ...silentLogger, error: (_, __, fields) => void logged.push(fields) },
    });
    return (signal = new AbortController().signal) => openLetters(signal);
  };
  const codec = await createCodec(registry, deadLetter);
  const letters = async () => {
    const found: (DeadLetter & { partition: number; id: string | undefined; recordKey: string | null })[] =
      [];
    const tail = await whole.tail({
      topic: TOPICS.deadLetters,
      from: 'earliest',
      onBatch: async ({ partition, records }) => {
        for (const { key, value, headers } of records)
          found.push({
            ...(await codec.decode(value)),
            ...{ partition, id: headers[APPEND_ID_HEADER], recordKey: key },
          });
      },
    });
    await tail.waitForOffsets(await whole.endOffsets(TOPICS.deadLetters));
    await tail.close();
    return found;
  };
  return { logId: whole.id, said: logged, clock, open, openLetters: await open(group), letters };
}

test('logs a dead letter without the record, which contains players’ data and may be large', async () => {
  const { openLetters, said: logged, letters } = await aGroup();
  await openLetters().send(SOURCE, aRecord(7), unreadable(), false);
  expect(logged).toEqual([{ ...SOURCE, offset: 7, group: 'group' }]);
  expect((await letters()).map(({ reason }) => reason)).toEqual(['unreadable']);
});

test('stores the record unchanged, its source, and the cause', async () => {
  const { logId, clock, openLetters, letters } = await aGroup();
  const headers = { a: '1', [APPEND_ID_HEADER]: 'its own' };
  const deep = unreadable('no such type', new Error('bad byte'));
  await openLetters().send(SOURCE, aRecord(7, { headers }), deep, false);
  await openLetters().send(
    SOURCE,
    aRecord(8, { key: null, value: null }),
    unreadable('x'.repeat(3_000)),
    false,
  );
  const [first, second] = await letters();
  expect(first).toMatchObject({
    ...{ logId, sourceTopic: 'topic', sourcePartition: 4, sourceOffset: 7, group: 'group' },
    ...{ reason: 'no such type: bad byte', key: 'tenant', recordKey: 'tenant', headers, deadAt: clock.nowMs },
    partition: 4 % PARTITIONS,
  });
  expect(first?.value).toEqual(Buffer.from('a payload'));
  expect(second).toMatchObject({ sourceOffset: 8, key: null, recordKey: null, value: null });
  // A long cause is shortened, so that the dead letter is not too large.
  expect(second?.reason).toBe('x'.repeat(2_000));
});

test('searches for a dead letter that may exist, and sends it only if it is missing', async () => {
  let tails = 0;
  const counted = (log: Log): Log =>
    withMethods(log, {
      tail: async (options) => {
        const tail = await log.tail(options);
        tails += 1;
        return withMethods(tail, { close: () => tail.close().finally(() => (tails -= 1)) });
      },
    });
  const { open, openLetters, letters } = await aGroup({ on: counted });
  await openLetters().send({ ...SOURCE, partition: 0 }, aRecord(1), unreadable(), false);
  await openLetters().send(SOURCE, aRecord(1), unreadable(), false);
  // Another process takes over the partition.
  const successor = openLetters();
  for (const offset of [1, 2, 2, 1]) await successor.send(SOURCE, aRecord(offset), unreadable(), true);
  expect((await letters()).map(({ sourceOffset }) => Number(sourceOffset)).sort()).toEqual([1, 1, 2]);
  expect(tails).toBe(0);
  // The same offset in another partition, topic, or group identifies another record.
  await successor.send({ ...SOURCE, partition: 1 }, aRecord(1), unreadable(), true);
  await successor.send({ ...SOURCE, topic: 'other' }, aRecord(1), unreadable(), true);
  await (await open('other'))().send(SOURCE, aRecord(1), unreadable(), true);
  const all = await letters();
  expect(all).toHaveLength(6);
  expect(new Set(all.map(({ id }) => id)).size).toBe(6);
});

test('sends and searches while another partition of the dead letters has no leader', async () => {
  const { openLetters, letters } = await aGroup({ on: (log) => withoutLeader(log, 2).log });
  for (const offset of [1, 1]) await openLetters().send(SOURCE, aRecord(offset), unreadable(), true);
  expect(await letters()).toHaveLength(1);
});

test('searches again after a failed append, because the record may have been stored', async () => {
  let isUnavailable = false;
  const failing = (log: Log): Log =>
    withMethods(log, {
      append: async (topic, partition, records) => {
        const appended = await log.append(topic, partition, records);
        if (isUnavailable) throw new Unavailable('the answer was lost');
        return appended;
      },
    });
  const { openLetters, letters } = await aGroup({ on: failing });
  const one = openLetters();
  await one.send(SOURCE, aRecord(1), unreadable(), true);
  isUnavailable = true;
  await expect(one.send(SOURCE, aRecord(2), unreadable(), true)).rejects.toBeInstanceOf(Unavailable);
  isUnavailable = false;
  await one.send(SOURCE, aRecord(2), unreadable(), true);
  expect(await letters()).toHaveLength(2);
});

const MIB = 1024 * 1024;
/** Value of a record that is so large that each batch contains one record. */
const LARGE = Buffer.alloc(3 * MIB);

test.each([
  ['are read to the end while they keep arriving', 20_000, 'found'],
  ['are read again if none arrives in time', 31_000, 'the dead letters cannot be read'],
])('dead letters %s', async (_, batchMs, outcome) => {
  const slow = (log: Log): Log =>
    withPausedTails(log, async () => void (await vi.advanceTimersByTimeAsync(batchMs)));
  const { openLetters, letters } = await aGroup({ on: slow });
  const offsets = [1, 2, 3, 4, 5];
  for (const offset of offsets)
    await openLetters().send(SOURCE, aRecord(offset, { value: LARGE }), unreadable(), false);
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  // Simulates an expired limit on the total time. The read must not use such a limit.
  const timeout = vi.spyOn(AbortSignal, 'timeout').mockReturnValue(AbortSignal.abort());
  onTestFinished(() => timeout.mockRestore());
  const found = openLetters().send(SOURCE, aRecord(5), unreadable(), true);
  expect(
    await found.then(
      () => 'found',
      (error: unknown) => error,
    ),
  ).toEqual(outcome === 'found' ? outcome : new Unavailable(outcome));
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
  expect(await letters()).toHaveLength(offsets.length);
});

test('stops searching the dead letters when the partition is lost', async () => {
  const lost = new AbortController();
  const { openLetters } = await aGroup({ on: (log) => withPausedTails(log, async () => lost.abort()) });
  await openLetters().send(SOURCE, aRecord(1), unreadable(), false);
  const found = openLetters(lost.signal).send(SOURCE, aRecord(1), unreadable(), true);
  await expect(found).rejects.toBeInstanceOf(Unavailable);
});

test('keeps the source and, if it fits, the key of a record that is too large for the dead letters', async () => {
  const { openLetters, letters } = await aGroup();
  const tooLarge = [
    aRecord(7, { value: Buffer.alloc(13 * MIB), headers: { a: '1' } }),
    aRecord(8, { key: 'k'.repeat(13 * MIB), value: null }),
  ];
  for (const mayBeThere of [false, true])
    for (const record of tooLarge) await openLetters().send(SOURCE, record, unreadable(), mayBeThere);
  const gone = (bytes: number): string =>
    `unreadable; ${bytes} bytes were omitted: the source topic keeps the record until it expires`;
  const bare = { sourceTopic: 'topic', sourcePartition: 4, value: null, headers: {} };
  expect(await letters()).toMatchObject([
    { ...bare, sourceOffset: 7, key: 'tenant', recordKey: 'tenant', reason: gone(13 * MIB + 2) },
    { ...bare, sourceOffset: 8, key: null, recordKey: null, reason: gone(13 * MIB) },
  ]);
});

test('counts a dead letter once, however many attempts it takes', async () => {
  let isUnavailable = false;
  const failing = (log: Log): Log =>
    withMethods(log, {
      append: async (...append) => {
        if (isUnavailable) throw new Unavailable('away');
        return await log.append(...append);
      },
    });
  const { openLetters, letters } = await aGroup({ on: failing });
  const one = openLetters();
  one.countProcessed(900);
  const sendAll = async (offsets: readonly number[]): Promise<void> => {
    await Promise.all(offsets.map((offset) => one.send(SOURCE, aRecord(offset), unreadable(), true)));
  };
  const first = Array.from({ length: 100 }, (_, offset) => offset);
  await sendAll(first);
  isUnavailable = true;
  for (let outage = 0; outage < 100; outage++)
    await expect(sendAll([...first, 100])).rejects.toBeInstanceOf(Unavailable);
  isUnavailable = false;
  await sendAll([...first, 100]);
  expect(await letters()).toHaveLength(101);
});

test('counts dead letters that another process sent', async () => {
  let readings = 0;
  const counted = (log: Log): Log =>
    withMethods(log, {
      tail: async (options) => {
        readings += 1;
        return await log.tail(options);
      },
    });
  const { open, openLetters, letters } = await aGroup({ on: counted });
  const sendAll = async (one: ReturnType<typeof openLetters>, mayBeThere: boolean): Promise<number> => {
    const sending = Array.from({ length: 1_000 }, (_, offset) =>
      one.send(SOURCE, aRecord(offset), unreadable(), mayBeThere),
    );
    return (await Promise.allSettled(sending)).filter(({ status }) => status === 'rejected').length;
  };
  // The ratio includes dead letters that are being sent.
  expect(await sendAll(openLetters(), false)).toBe(1);
  expect(await letters()).toHaveLength(999);
  expect(await sendAll((await open('group'))(), true)).toBe(1);
  expect(readings).toBe(1);
  expect(await letters()).toHaveLength(999);
});

test.each([
  ['half of 1,000 as', 500, 500, false],
  ['more than half of 1,000 as', 499, 501, true],
  ['all of 999 as', 0, 999, false],
  ['all of 1,000 as', 0, 1_000, true],
])('a consumer with %s dead letters (%i processed, %i dead)', async (_, fine, dead, isStopped) => {
  const { one, sent } = await aPartition();
  one.countProcessed(fine);
  const sending = async (): Promise<void> => {
    for (let offset = 0; offset < dead; offset++)
      await one.send(SOURCE, aRecord(offset), unreadable(), false);
  };
  if (isStopped) {
    const error = await sending().catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      message: expect.stringContaining(
        'group stopped: more than half of the recent records of topic cannot be processed',
      ),
    });
    expect(error).toHaveProperty('cause.message', 'unreadable');
  } else await sending();
  expect(sent()).toBe(isStopped ? dead - 1 : dead);
});

test('stops within two windows when a topic with a good history turns bad', async () => {
  const { one, sent } = await aPartition();
  for (let window = 0; window < 100; window++) one.countProcessed(1_000);
  const sending = async (): Promise<void> => {
    for (let offset = 0; offset < 5_000; offset++)
      await one.send(SOURCE, aRecord(offset), unreadable(), false);
  };
  await expect(sending()).rejects.toThrow('cannot be processed');
  expect(sent()).toBeLessThan(2_000);
});

test('stops also if each window ends with processed records', async () => {
  const { one, sent } = await aPartition();
  const sending = async (): Promise<void> => {
    for (let window = 0; window < 10; window++) {
      for (let offset = 0; offset < (window === 0 ? 700 : 349); offset++)
        await one.send(SOURCE, aRecord(offset), unreadable(), false);
      one.countProcessed(window === 0 ? 300 : 151);
    }
  };
  await expect(sending()).rejects.toThrow('cannot be processed');
  expect(sent()).toBe(700);
});

test('does not stop while a third of the records are dead letters', async () => {
  const { one, sent } = await aPartition();
  for (let offset = 0; offset < 3_000; offset++) {
    one.countProcessed(2);
    await one.send(SOURCE, aRecord(offset), unreadable(), false);
  }
  expect(sent()).toBe(3_000);
});

/** Returns dead letters that are counted but not stored. A search for stored dead letters fails. */
async function aPartition() {
  let sent = 0;
  const append: Log['append'] = async () => ({ baseOffset: sent++ });
  const tail = async (): Promise<never> => {
    throw new Error('the dead letters are read');
  };
  const { openLetters } = await aGroup({ on: (log) => withMethods(log, { append, tail }) });
  return { one: openLetters(), sent: () => sent };
}
