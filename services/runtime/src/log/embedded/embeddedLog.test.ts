/** Failures of the embedded log: a full queue, disk errors, a closed log, and changed rows. */
import { describe, expect, it, onTestFinished } from 'vitest';
import { StartRefused, Unavailable } from '../../process/errors.ts';
import {
  aMember,
  aRecord,
  nextRecords,
  readToEnd,
  textOf,
  textsToEnd,
  untilAssigned,
} from '../contract/harness.ts';
import { RecordTooLarge } from '../log.ts';
import { openDatabase } from './database.ts';
import { embeddedLogOn } from './embeddedLog.ts';
import { aDirectory, aLog, ManualClock, topicSpec } from './testing/testLog.ts';

describe('an append', () => {
  it('is invisible until it is durable', async () => {
    const log = await aLog();
    await log.ensureTopics([topicSpec('t')]);
    const appended = log.append('t', 0, [aRecord('a')]);
    expect(await log.endOffsets('t')).toEqual([0]);
    await appended;
    expect(await log.endOffsets('t')).toEqual([1]);
  });

  it('accepts a record of exactly the maximum size', async () => {
    const log = await aLog();
    await log.ensureTopics([topicSpec('t', { maxRecordBytes: 20 })]);
    const record = { key: 'four', value: Buffer.alloc(8), headers: { é: 'é', four: '' } };
    await log.append('t', 0, [record]);
    const larger = log.append('t', 0, [{ ...record, value: Buffer.alloc(9) }]);
    await expect(larger).rejects.toEqual(new RecordTooLarge('t', 21, 20));
  });

  it('gets its timestamp from the clock', async () => {
    const clock = new ManualClock();
    const log = await aLog({ clock });
    await log.ensureTopics([topicSpec('t')]);
    clock.nowMs += 1234;
    await log.append('t', 0, [aRecord('a')]);
    expect((await readToEnd(log, 't'))[0]?.[0]?.timestampMs).toBe(clock.nowMs);
  });

  it('is rejected while the queue is full and accepted afterwards', async () => {
    const log = await aLog({ maxQueuedBytes: 1000 });
    await log.ensureTopics([topicSpec('t')]);
    const larger = log.append('t', 0, [aRecord('larger than the queue'.padEnd(5000))]);
    const rejected = log.append('t', 0, [aRecord('refused')]);
    await expect(rejected).rejects.toBeInstanceOf(Unavailable);
    await larger;
    expect(await log.append('t', 0, [aRecord('taken')])).toEqual({ baseOffset: 1 });
  });

  it('without a key throws in a compacted topic', async () => {
    const log = await aLog();
    await log.ensureTopics([topicSpec('t', { cleanup: { policy: 'compact' } })]);
    await expect(log.append('t', 0, [aRecord('lost', null)])).rejects.toThrow('without a key');
  });
});

describe('a disk error', () => {
  it('makes appends and commits unavailable and leaves nothing behind', async () => {
    const database = openDatabase(aDirectory());
    const log = embeddedLogOn(database, { directory: '', clock: new ManualClock() });
    onTestFinished(() => log.close());
    await log.ensureTopics([topicSpec('t', { partitions: 2 })]);
    await log.append('t', 0, [aRecord('before')]);
    const held = await aMember(log, 'group', 't');
    await untilAssigned(held, 2);

    const pages = Number(database.sqlite.prepare('PRAGMA page_count').get()?.['page_count']);
    database.sqlite.exec(`PRAGMA max_page_count = ${pages}`);
    const value = Buffer.alloc(100_000, 'x');
    // The first write alone would fit, but it shares the transaction with the other writes.
    const outcomes = await Promise.allSettled([
      log.append('t', 0, [aRecord('small')]),
      log.append('t', 0, [{ key: 'k', value }]),
      log.append('t', 1, [{ key: 'k', value }]),
      held.current(0).commit('t', { offset: 1, metadata: 'lost' }),
    ]);
    for (const outcome of outcomes) {
      const error = outcome.status === 'rejected' ? outcome.reason : undefined;
      expect(error).toBeInstanceOf(Unavailable);
      expect(error.message).toContain('nothing was written');
      expect(error.cause).toMatchObject({ errcode: 13 });
    }
    expect(await textsToEnd(log, 't')).toEqual([['before'], []]);
    expect(await log.committed('group', 't')).toEqual([undefined, undefined]);

    database.sqlite.exec(`PRAGMA max_page_count = ${pages + 1000}`);
    expect(await log.append('t', 0, [aRecord('after')])).toEqual({ baseOffset: 1 });
    await held.current(0).commit('t', { offset: 1, metadata: 'kept' });
    expect(await textsToEnd(log, 't')).toEqual([['before', 'after'], []]);
  });

  it('rolls back a transaction that failed', () => {
    const database = openDatabase(aDirectory());
    onTestFinished(() => database.close());
    const failing = () =>
      database.write(() => {
        database.sqlite.exec("INSERT INTO topics VALUES ('half', 'compact', NULL, 1)");
        throw new Error('a bug');
      });
    expect(failing).toThrow('a bug');
    expect(database.write(() => database.sqlite.prepare('SELECT * FROM topics').all())).toEqual([]);
  });

  it('fails a reader that cannot continue', async () => {
    const database = openDatabase(aDirectory());
    const log = embeddedLogOn(database, { directory: '', clock: new ManualClock() });
    // Stops the maintenance, whose next run would fail in another test of this worker.
    onTestFinished(() => log.close().catch(() => undefined));
    await log.ensureTopics([topicSpec('t')]);
    await log.append('t', 0, [aRecord('a')]);
    const tail = await log.tail({ topic: 't', from: 'earliest', onBatch: () => undefined });
    database.close();
    await expect(tail.failed).rejects.toThrow();
    await expect(tail.waitForOffsets([1])).rejects.toThrow();
  });
});

describe('a row that was changed outside Questlog', () => {
  const changed = async (column: 'headers' | 'timestamp_ms', to: string | bigint) => {
    const database = openDatabase(aDirectory());
    const clock = new ManualClock();
    const log = embeddedLogOn(database, { directory: '', clock });
    onTestFinished(() => log.close());
    await log.ensureTopics([topicSpec('t')]);
    await log.append('t', 0, [{ ...aRecord('a'), headers: { name: 'a' } }, aRecord('b')]);
    database.sqlite.prepare(`UPDATE records SET ${column} = ? WHERE value = ?`).run(to, Buffer.from('a'));
    return { log, clock };
  };

  it.each(['nope', 'null', '5', '"a"', '["a"]', '{"name":5}', '{"name":"a","other":{}}'])(
    'has no headers if the column is %s',
    async (headers) => {
      const { log } = await changed('headers', headers);
      const records = (await readToEnd(log, 't'))[0] ?? [];
      expect(records.map((record) => [textOf(record), record.headers])).toEqual([
        ['a', {}],
        ['b', {}],
      ]);
    },
  );

  it.each([2n ** 62n, -(2n ** 62n), 2n ** 53n, -1n])(
    'has a timestamp of 1970 if the column is %s, and expires first',
    async (time) => {
      const { log, clock } = await changed('timestamp_ms', time);
      const records = (await readToEnd(log, 't'))[0] ?? [];
      expect(records.map(({ timestampMs }) => timestampMs)).toEqual([0, clock.nowMs]);
      await log.maintain();
      expect(await textsToEnd(log, 't')).toEqual([['b']]);
    },
  );
});

describe('close', () => {
  it('waits for running appends and rejects later ones', async () => {
    const directory = aDirectory();
    const log = await aLog({ directory });
    await log.ensureTopics([topicSpec('t')]);
    const running = Promise.all(
      Array.from({ length: 100 }, (_, index) => log.append('t', 0, [aRecord(`${index}`)])),
    );
    const closing = log.close();
    expect(log.close()).toBe(closing);
    await Promise.all([running, closing]);
    await expect(log.append('t', 0, [aRecord('late')])).rejects.toBeInstanceOf(Unavailable);
    await expect(log.tail({ topic: 't', from: 'earliest', onBatch: () => undefined })).rejects.toBeInstanceOf(
      Unavailable,
    );
    expect(await (await aLog({ directory })).endOffsets('t')).toEqual([100]);
  });

  it('stops tails and consumers, which can commit finished work', async () => {
    const directory = aDirectory();
    const log = await aLog({ directory });
    await log.ensureTopics([topicSpec('t')]);
    await log.append('t', 0, [aRecord('a')]);
    const started = Promise.withResolvers<void>();
    await log.consume({
      group: 'group',
      topics: ['t'],
      process: async (owned) => {
        started.resolve();
        while ((await owned.read({ maxRecords: 1, maxBytes: 1, waitMs: 60_000 })) !== undefined);
        await owned.commit('t', { offset: 1, metadata: 'last' });
      },
    });
    const tail = await log.tail({ topic: 't', from: 'earliest', onBatch: () => undefined });
    await started.promise;
    await tail.waitForOffsets([1]);
    const waiting = expect(tail.waitForOffsets([2])).rejects.toBeInstanceOf(Unavailable);
    await log.close();
    await waiting;
    expect(await (await aLog({ directory })).committed('group', 't')).toEqual([
      { offset: 1, metadata: 'last' },
    ]);
  });
});

describe('offsets beyond the end', () => {
  it('cannot be committed, and a read of 0 records throws', async () => {
    const log = await aLog();
    await log.ensureTopics([topicSpec('t')]);
    await log.append('t', 0, [aRecord('a')]);
    const member = await aMember(log, 'group', 't');
    await untilAssigned(member, 1);
    const owned = member.current(0);
    await expect(owned.commit('t', { offset: 2, metadata: '' })).rejects.toThrow('ends at 1');
    await expect(owned.commit('t', { offset: 1, metadata: 'x'.repeat(4097) })).rejects.toThrow('4096 bytes');
    await expect(owned.read({ maxRecords: 0, maxBytes: 1, waitMs: 0 })).rejects.toThrow('0 records');
    expect((await nextRecords(owned)).map(textOf)).toEqual(['a']);
  });
});

describe('too many partitions', () => {
  it('are rejected as StartRefused', async () => {
    const log = await aLog();
    await log.ensureTopics([topicSpec('t', { partitions: 4095 })]);
    await expect(log.ensureTopics([topicSpec('u', { partitions: 2 })])).rejects.toBeInstanceOf(StartRefused);
    await log.ensureTopics([topicSpec('v')]);
    await log.append('v', 0, [aRecord('in the last one')]);
    await log.append('t', 4094, [aRecord('in the one before')]);
    expect(await textsToEnd(log, 'v')).toEqual([['in the last one']]);
  });
});
