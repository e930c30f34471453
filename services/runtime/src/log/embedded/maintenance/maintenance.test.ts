/** Retention and compaction: which records are deleted, and how readers pass the gaps. */
import { describe, expect, it } from 'vitest';
import {
  aMember,
  aRecord,
  nextRecords,
  readToEnd,
  textOf,
  textsToEnd,
  untilAssigned,
} from '../../contract/harness.ts';
import type { Log } from '../../log.ts';
import { aDirectory, aLog, HOUR_MS, ManualClock, topicSpec } from '../testing/testLog.ts';

describe('retention', () => {
  it('deletes expired records and moves the start offsets', async () => {
    const [clock, directory] = [new ManualClock(), aDirectory()];
    const log = await aLog({ clock, directory });
    await log.ensureTopics([topicSpec('t', { partitions: 2 })]);
    await log.append('t', 0, [aRecord('old 0'), aRecord('old 1')]);
    clock.nowMs += HOUR_MS;
    await log.append('t', 0, [aRecord('young')]);
    await log.maintain();
    expect(await log.startOffsets('t')).toEqual([0, 0]);
    clock.nowMs += 1;
    await log.maintain();
    expect(await log.startOffsets('t')).toEqual([2, 0]);
    expect(await textsToEnd(log, 't')).toEqual([['young'], []]);
    clock.nowMs += HOUR_MS;
    await log.maintain();
    expect(await log.startOffsets('t')).toEqual([3, 0]);

    await log.close();
    const reopened = await aLog({ clock, directory });
    expect([await reopened.startOffsets('t'), await reopened.endOffsets('t')]).toEqual([
      [3, 0],
      [3, 0],
    ]);
    expect(await textsToEnd(reopened, 't')).toEqual([[], []]);
    expect(await reopened.append('t', 0, [aRecord('next')])).toEqual({ baseOffset: 3 });
  });

  it('keeps records that a group has not committed', async () => {
    const clock = new ManualClock();
    const log = await aLog({ clock });
    await log.ensureTopics([topicSpec('t')]);
    await log.append(
      't',
      0,
      ['a', 'b', 'c'].map((text) => aRecord(text)),
    );
    await commitAndLeave(log, 'slow', 1);
    await commitAndLeave(log, 'fast', 3);
    clock.nowMs += 2 * HOUR_MS;
    await log.maintain();
    expect(await log.startOffsets('t')).toEqual([1]);
    expect(await textsToEnd(log, 't')).toEqual([['b', 'c']]);
    await commitAndLeave(log, 'slow', 3);
    await log.maintain();
    expect(await log.startOffsets('t')).toEqual([3]);
  });

  it('moves a reader of an expired record to the oldest record', async () => {
    const clock = new ManualClock();
    const log = await aLog({ clock });
    await log.ensureTopics([topicSpec('t')]);
    const member = await aMember(log, 'group', 't');
    await untilAssigned(member, 1);
    await log.append('t', 0, [aRecord('gone')]);
    clock.nowMs += 2 * HOUR_MS;
    await log.append('t', 0, [aRecord('there')]);
    await log.maintain();
    expect((await nextRecords(member.current(0))).map(textOf)).toEqual(['there']);
    const batches: unknown[] = [];
    const tail = await log.tail({
      topic: 't',
      from: [0],
      onBatch: ({ records, isAfterExpired }) => void batches.push([records.map(textOf), isAfterExpired]),
    });
    await tail.waitForOffsets([2]);
    await log.append('t', 0, [aRecord('next')]);
    await tail.waitForOffsets([3]);
    expect(batches).toEqual([
      [['there'], true],
      [['next'], undefined],
    ]);
  });

  it('deletes many records in chunks, including transaction markers', async () => {
    const clock = new ManualClock();
    const log = await aLog({ clock });
    await log.ensureTopics([topicSpec('t', { partitions: 2 })]);
    const producer = await log.transactionalProducer('producer');
    const records = Array.from({ length: 2500 }, (_, index) => aRecord(`${index}`));
    await producer.commit({ appends: [{ topic: 't', partition: 0, records }] });
    await log.append(
      't',
      1,
      Array.from({ length: 12 }, () => aRecord('x'.repeat(900_000))),
    );
    clock.nowMs += 2 * HOUR_MS;
    await producer.commit({ appends: [{ topic: 't', partition: 0, records: [aRecord('young')] }] });
    await log.maintain();
    expect(await log.startOffsets('t')).toEqual([2500, 12]);
    expect(await textsToEnd(log, 't')).toEqual([['young'], []]);
    clock.nowMs += 2 * HOUR_MS;
    await log.maintain();
    expect(await log.startOffsets('t')).toEqual([2503, 12]);
  });

  it('stops when the log is closed and continues after it is reopened', async () => {
    const [clock, directory] = [new ManualClock(), aDirectory()];
    const log = await aLog({ clock, directory });
    await log.ensureTopics([topicSpec('t')]);
    await log.append(
      't',
      0,
      Array.from({ length: 5000 }, () => aRecord('old')),
    );
    clock.nowMs += 2 * HOUR_MS;
    const maintained = log.maintain();
    await log.close();
    await maintained;
    const reopened = await aLog({ clock, directory });
    expect((await reopened.startOffsets('t'))[0]).toBeLessThan(5000);
    await reopened.maintain();
    expect(await reopened.startOffsets('t')).toEqual([5000]);
  });

  it('runs on a timer', async () => {
    const clock = new ManualClock();
    const log = await aLog({ clock, maintenanceIntervalMs: 1 });
    await log.ensureTopics([topicSpec('t')]);
    await log.append('t', 0, [aRecord('old')]);
    clock.nowMs += 2 * HOUR_MS;
    await expect.poll(() => log.startOffsets('t')).toEqual([1]);
  });
});

describe('compaction', () => {
  it('keeps the last record of each key at its offset', async () => {
    const log = await aLog();
    await log.ensureTopics([topicSpec('t', { partitions: 2, cleanup: { policy: 'compact' } })]);
    await log.append('t', 0, [aRecord('a1', 'a'), aRecord('b1', 'b'), aRecord('a2', 'a')]);
    await log.append('t', 1, [aRecord('elsewhere', 'a')]);
    await log.maintain();
    await log.append('t', 0, [aRecord('b2', 'b'), aRecord('c1', 'c'), aRecord('b3', 'b')]);
    await log.maintain();
    await log.maintain();
    const [first = [], second = []] = await readToEnd(log, 't');
    expect(first.map((record) => [record.offset, textOf(record)])).toEqual([
      [2, 'a2'],
      [4, 'c1'],
      [5, 'b3'],
    ]);
    expect(second.map(textOf)).toEqual(['elsewhere']);
    expect(await log.startOffsets('t')).toEqual([0, 0]);
    expect(await log.endOffsets('t')).toEqual([6, 1]);
  });

  it('keeps a tombstone for a day after its key was removed', async () => {
    const clock = new ManualClock();
    const log = await aLog({ clock });
    await log.ensureTopics([topicSpec('t', { cleanup: { policy: 'compact' } })]);
    await log.append('t', 0, [aRecord('a', 'a'), aRecord('b', 'b'), { key: 'a', value: null }]);
    clock.nowMs += 48 * HOUR_MS;
    await log.maintain();
    expect(await textsToEnd(log, 't')).toEqual([['b', undefined]]);
    clock.nowMs += 24 * HOUR_MS;
    await log.maintain();
    expect(await textsToEnd(log, 't')).toEqual([['b', undefined]]);
    clock.nowMs += 1;
    await log.maintain();
    expect(await textsToEnd(log, 't')).toEqual([['b']]);
    await log.append('t', 0, [aRecord('a again', 'a')]);
    await log.maintain();
    expect(await textsToEnd(log, 't')).toEqual([['b', 'a again']]);
  });

  it('keeps a key that was written again before its tombstone expired', async () => {
    const clock = new ManualClock();
    const log = await aLog({ clock });
    await log.ensureTopics([topicSpec('t', { cleanup: { policy: 'compact' } })]);
    await log.append('t', 0, [{ key: 'a', value: null }]);
    await log.maintain();
    await log.append('t', 0, [aRecord('back', 'a')]);
    clock.nowMs += 48 * HOUR_MS;
    await log.maintain();
    expect(await textsToEnd(log, 't')).toEqual([['back']]);
  });

  it('compacts many records in chunks, and a reader reaches the end', async () => {
    const clock = new ManualClock();
    const log = await aLog({ clock });
    await log.ensureTopics([topicSpec('t', { cleanup: { policy: 'compact' } })]);
    const records = Array.from({ length: 3000 }, (_, index) => aRecord(`${index}`, `key ${index % 700}`));
    await log.append('t', 0, records);
    await log.maintain();
    const [kept = []] = await readToEnd(log, 't');
    expect(kept.map(({ offset }) => offset)).toEqual(Array.from({ length: 700 }, (_, index) => 2300 + index));

    await log.append(
      't',
      0,
      Array.from({ length: 700 }, (_, index) => ({ key: `key ${index}`, value: null })),
    );
    await log.maintain();
    clock.nowMs += 25 * HOUR_MS;
    await log.maintain();
    const member = await aMember(log, 'group', 't');
    await untilAssigned(member, 1);
    expect(await member.current(0).read({ maxRecords: 10, maxBytes: 1000, waitMs: 0 })).toMatchObject({
      records: [],
      nextOffset: 3700,
    });
  });
});

async function commitAndLeave(log: Log, group: string, offset: number): Promise<void> {
  const member = await aMember(log, group, 't');
  await untilAssigned(member, 1);
  await member.current(0).commit('t', { offset, metadata: '' });
  await member.consumer.stop();
}
