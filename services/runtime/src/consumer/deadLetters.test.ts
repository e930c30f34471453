/** What cannot be processed is kept whole, once, with its cause; and a topic is not emptied into the dead letters. */
import { type DeadLetter, deadLetter } from '@questlog/schemas/topics/deadLetter';
import { APPEND_ID_HEADER, TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import { aLog, ManualClock } from '../log/embedded/testing/testLog.ts';
import type { Log, LogRecord } from '../log/log.ts';
import { withMethods } from '../log/testing/withMethods.ts';
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
  const said: unknown[] = [];
  const clock = new ManualClock();
  const open = async (name: string) =>
    await openDeadLetters({
      ...{ log: on(whole), registry, clock, group: name },
      logger: { ...silentLogger, error: (_, __, fields) => void said.push(fields) },
    });
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
    await tail.reached(await whole.endOffsets(TOPICS.deadLetters));
    await tail.close();
    return found;
  };
  return { logId: whole.id, said, clock, open, openLetters: await open(group), letters };
}

test('a dead letter is logged without the record, which is the players’ and may be megabytes', async () => {
  const { openLetters, said, letters } = await aGroup();
  await openLetters().send(SOURCE, aRecord(7), unreadable(), false);
  expect(said).toEqual([{ ...SOURCE, offset: 7, group: 'group' }]);
  expect((await letters()).map(({ reason }) => reason)).toEqual(['unreadable']);
});

test('holds the record as it was, where it came from, and why', async () => {
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
  // Room for a long reason is room that the record does not have.
  expect(second?.reason).toBe('x'.repeat(2_000));
});

test('one that may be there is looked for, and sent only if it is not', async () => {
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
  // Another process takes over.
  const heir = openLetters();
  for (const offset of [1, 2, 2, 1]) await heir.send(SOURCE, aRecord(offset), unreadable(), true);
  expect((await letters()).map(({ sourceOffset }) => Number(sourceOffset)).sort()).toEqual([1, 1, 2]);
  expect(tails).toBe(0);
  // The same offset of another partition, topic or group is another record.
  await heir.send({ ...SOURCE, partition: 1 }, aRecord(1), unreadable(), true);
  await heir.send({ ...SOURCE, topic: 'other' }, aRecord(1), unreadable(), true);
  await (await open('other'))().send(SOURCE, aRecord(1), unreadable(), true);
  const all = await letters();
  expect(all).toHaveLength(6);
  expect(new Set(all.map(({ id }) => id)).size).toBe(6);
});

test('one whose append failed is looked for again, since it may be there all the same', async () => {
  let isAway = false;
  const failing = (log: Log): Log =>
    withMethods(log, {
      append: async (topic, partition, records) => {
        const appended = await log.append(topic, partition, records);
        if (isAway) throw new Unavailable('the answer was lost');
        return appended;
      },
    });
  const { openLetters, letters } = await aGroup({ on: failing });
  const one = openLetters();
  await one.send(SOURCE, aRecord(1), unreadable(), true);
  isAway = true;
  await expect(one.send(SOURCE, aRecord(2), unreadable(), true)).rejects.toBeInstanceOf(Unavailable);
  isAway = false;
  await one.send(SOURCE, aRecord(2), unreadable(), true);
  expect(await letters()).toHaveLength(2);
});

test.each([
  ['half of 1,000', 500, 500, false],
  ['more than half of 1,000', 499, 501, true],
  ['all of 999', 0, 999, false],
  ['all of 1,000', 0, 1_000, true],
])('of records that are dead, %s: %i are fine and %i not', async (_, fine, dead, isStopped) => {
  const { one, sent } = await aPartition();
  one.passed(fine);
  const sending = async (): Promise<void> => {
    for (let offset = 0; offset < dead; offset++)
      await one.send(SOURCE, aRecord(offset), unreadable(), false);
  };
  if (isStopped) {
    const error = await sending().catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      message: expect.stringContaining('group: most of topic cannot be processed'),
    });
    expect(error).toHaveProperty('cause.message', 'unreadable');
  } else await sending();
  expect(sent()).toBe(isStopped ? dead - 1 : dead);
});

test('what was long ago counts less: a topic that turns bad stops its consumer within two windows', async () => {
  const { one, sent } = await aPartition();
  for (let window = 0; window < 100; window++) one.passed(1_000);
  const sending = async (): Promise<void> => {
    for (let offset = 0; offset < 5_000; offset++)
      await one.send(SOURCE, aRecord(offset), unreadable(), false);
  };
  await expect(sending()).rejects.toThrow('stopped before it is emptied');
  expect(sent()).toBeLessThan(2_000);
});

test('a topic of which a third is dead is not stopped, however long it goes on', async () => {
  const { one, sent } = await aPartition();
  for (let offset = 0; offset < 3_000; offset++) {
    one.passed(2);
    await one.send(SOURCE, aRecord(offset), unreadable(), false);
  }
  expect(sent()).toBe(3_000);
});

/** Its letters are counted, not kept; none of them can be there, so that nobody looks for it among all others. */
async function aPartition() {
  let sent = 0;
  const append: Log['append'] = async () => ({ baseOffset: sent++ });
  const tail = async (): Promise<never> => {
    throw new Error('the dead letters are read');
  };
  const { openLetters } = await aGroup({ on: (log) => withMethods(log, { append, tail }) });
  return { one: openLetters(), sent: () => sent };
}
