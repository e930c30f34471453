/** Contract tests for a consumer group with one member: reads, seeks, and commits. */
import { describe, expect, it } from 'vitest';
import {
  aMember,
  aName,
  aRecord,
  aTopic,
  nextRecords,
  readUntilLost,
  type Subject,
  textOf,
  until,
  untilAssigned,
} from './harness.ts';

export function describeGroups({ harness, log, reopen }: Subject): void {
  describe('a group member', () => {
    it('starts at the earliest record in a new group and then reads new records', async () => {
      const topic = await aTopic(log(), { partitions: 2 });
      await log().append(topic, 0, [aRecord('before')]);
      const texts: (string | undefined)[] = [];
      const consumer = await log().consume({
        group: aName('group'),
        topics: [topic],
        process: (owned) => {
          expect(owned.committed(topic)).toBeUndefined();
          expect(owned.position(topic)).toBe(0);
          return readUntilLost(owned, ({ records }) => {
            texts.push(...records.map(textOf));
          });
        },
      });
      await until(() => texts.length === 1);
      expect([...consumer.assigned()].sort()).toEqual([0, 1]);
      await log().append(topic, 1, [aRecord('after')]);
      await until(() => texts.length === 2);
      expect(texts).toEqual(['before', 'after']);
      await consumer.stop();
      expect(consumer.assigned()).toEqual([]);
    });

    it('reports what it does with each partition', async () => {
      const topic = await aTopic(log(), { partitions: 2 });
      const mayFinish = Promise.withResolvers<void>();
      const consumer = await log().consume({
        group: aName('group'),
        topics: [topic],
        process: (owned) => readUntilLost(owned, () => mayFinish.promise),
      });
      await until(() => [0, 1].every((one) => /^waits for records for \d+ s$/.test(consumer.activity(one))));
      await log().append(topic, 0, [aRecord('blocks')]);
      await until(() => consumer.activity(0).startsWith('works on records for '));
      const stopped = consumer.stop();
      await until(() => consumer.activity(0).includes('has lost the partition'));
      mayFinish.resolve();
      await stopped;
      expect(consumer.activity(0)).toBe('does not own it');
    });

    it('resumes at the committed offset and its metadata', async () => {
      const [topic, group] = [await aTopic(log()), aName('group')];
      await log().append(topic, 0, [aRecord('a'), aRecord('b'), aRecord('c')]);
      const first = await aMember(log(), group, topic);
      await untilAssigned(first, 1);
      const metadata = JSON.stringify({ pendingTo: 3, note: '\u2603'.repeat(1000) });
      await first.current(0).commit(topic, { offset: 1, metadata: 'overwritten' });
      await first.current(0).commit(topic, { offset: 2, metadata });
      await first.consumer.stop();
      expect(await log().committed(group, topic)).toEqual([{ offset: 2, metadata }]);

      const second = await aMember(log(), group, topic);
      await untilAssigned(second, 1);
      const owned = second.current(0);
      expect(owned.committed(topic)).toEqual({ offset: 2, metadata });
      expect(owned.position(topic)).toBe(2);
      expect((await nextRecords(owned)).map(textOf)).toEqual(['c']);
      await second.consumer.stop();
    });

    it.runIf(harness.reopen)('resumes at the committed offset after the log was reopened', async () => {
      const [topic, group] = [await aTopic(log()), aName('group')];
      await log().append(topic, 0, [aRecord('a'), aRecord('b')]);
      const before = await aMember(log(), group, topic);
      await untilAssigned(before, 1);
      await before.current(0).commit(topic, { offset: 1, metadata: 'durable' });
      await reopen(async (old) => (await harness.reopen?.(old)) ?? old);

      expect(await log().committed(group, topic)).toEqual([{ offset: 1, metadata: 'durable' }]);
      const after = await aMember(log(), group, topic);
      await untilAssigned(after, 1);
      expect((await nextRecords(after.current(0))).map(textOf)).toEqual(['b']);
      await after.consumer.stop();
    });

    it.runIf(harness.deleteCommits)(
      'starts at the earliest record after its commits were deleted, and commits again',
      async () => {
        const [topic, group] = [await aTopic(log(), { partitions: 2 }), aName('group')];
        await log().append(topic, 0, [aRecord('a'), aRecord('b')]);
        const before = await aMember(log(), group, topic);
        await untilAssigned(before, 2);
        for (const partition of [0, 1])
          await before.current(partition).commit(topic, { offset: 2 - 2 * partition, metadata: 'lost' });
        await before.consumer.stop();
        await harness.deleteCommits?.(group);
        expect(await log().committed(group, topic)).toEqual([undefined, undefined]);

        const after = await aMember(log(), group, topic);
        await untilAssigned(after, 2);
        const owned = after.current(0);
        expect([owned.committed(topic), owned.position(topic)]).toEqual([undefined, 0]);
        expect((await nextRecords(owned)).map(textOf)).toEqual(['a', 'b']);
        await owned.commit(topic, { offset: 1, metadata: 'again' });
        expect(await log().committed(group, topic)).toEqual([{ offset: 1, metadata: 'again' }, undefined]);
        await after.consumer.stop();
      },
    );

    it('limits each read to the requested size but returns at least one record', async () => {
      const topic = await aTopic(log());
      await log().append(
        topic,
        0,
        Array.from({ length: 10 }, (_, index) => aRecord(`${index}`.repeat(100))),
      );
      const member = await aMember(log(), aName('group'), topic);
      await untilAssigned(member, 1);
      const owned = member.current(0);
      const sizes: number[] = [];
      for (const bounds of [
        { maxRecords: 3, maxBytes: 1_000_000 },
        { maxRecords: 100, maxBytes: 250 },
        { maxRecords: 100, maxBytes: 1 },
      ]) {
        let batch = await owned.read({ ...bounds, waitMs: 500 });
        while (batch === undefined) batch = await owned.read({ ...bounds, waitMs: 500 });
        sizes.push(batch.records.length);
        expect(batch.nextOffset).toBe((batch.records.at(-1)?.offset ?? -1) + 1);
        expect(owned.position(topic)).toBe(batch.nextOffset);
      }
      expect(sizes[0]).toBeLessThanOrEqual(3);
      expect(sizes[1]).toBeLessThanOrEqual(2);
      expect(sizes[2]).toBe(1);
      await member.consumer.stop();
    });

    it('returns no batch if no records arrive in time', async () => {
      const member = await aMember(log(), aName('group'), await aTopic(log()));
      await untilAssigned(member, 1);
      expect(await member.current(0).read({ maxRecords: 1, maxBytes: 1, waitMs: 20 })).toBeUndefined();
      await member.consumer.stop();
    });

    it('seeks backward and forward', async () => {
      const topic = await aTopic(log());
      await log().append(topic, 0, [aRecord('a'), aRecord('b'), aRecord('c')]);
      const member = await aMember(log(), aName('group'), topic);
      await untilAssigned(member, 1);
      const owned = member.current(0);
      for (const [offset, text] of [
        [2, 'c'],
        [0, 'a'],
        [1, 'b'],
      ] as const) {
        owned.seek(topic, offset);
        expect(owned.position(topic)).toBe(offset);
        expect((await nextRecords(owned)).map(textOf)[0]).toBe(text);
      }
      owned.seek(topic, 3);
      await log().append(topic, 0, [aRecord('d')]);
      expect((await nextRecords(owned)).map(textOf)).toEqual(['d']);
      await member.consumer.stop();
    });

    it('reads several topics together or one named topic', async () => {
      const [left, right] = [await aTopic(log()), await aTopic(log())];
      await log().append(left, 0, [aRecord('left 0')]);
      await log().append(right, 0, [aRecord('right 0')]);
      const member = await aMember(log(), aName('group'), left, right);
      await untilAssigned(member, 1);
      const owned = member.current(0);
      expect((await nextRecords(owned, right)).map(textOf)).toEqual(['right 0']);
      await log().append(right, 0, [aRecord('right 1')]);
      const both = [await nextRecords(owned), await nextRecords(owned)].flat().map(textOf);
      expect(both.sort()).toEqual(['left 0', 'right 1']);
      expect([owned.position(left), owned.position(right)]).toEqual([1, 2]);
      await owned.commit(right, { offset: 2, metadata: '' });
      expect(await log().committed('unrelated', right)).toEqual([undefined]);
      await member.consumer.stop();
    });

    it('reads past transaction markers to the end', async () => {
      const topic = await aTopic(log());
      const producer = await log().transactionalProducer(aName('producer'));
      await producer.commit({ appends: [{ topic, partition: 0, records: [aRecord('a')] }] });
      await producer.close();
      const member = await aMember(log(), aName('group'), topic);
      await untilAssigned(member, 1);
      const owned = member.current(0);
      await until(async () => (await log().endOffsets(topic))[0] === 2);
      const texts: (string | undefined)[] = [];
      while (owned.position(topic) < 2) {
        const batch = await owned.read({ maxRecords: 1, maxBytes: 1, waitMs: 500 });
        texts.push(...(batch?.records ?? []).map(textOf));
      }
      expect(texts).toEqual(['a']);
      await member.consumer.stop();
    });

    it('rejects topics with different partition counts', async () => {
      const topics = [await aTopic(log(), { partitions: 2 }), await aTopic(log(), { partitions: 3 })];
      const consumed = log().consume({
        group: aName('group'),
        topics,
        process: (owned) => readUntilLost(owned),
      });
      await expect(consumed).rejects.toThrow();
    });

    it('fails with the error of process and releases its partitions', async () => {
      const [topic, group] = [await aTopic(log(), { partitions: 2 }), aName('group')];
      await log().append(topic, 1, [aRecord('poison')]);
      const failing = await log().consume({
        group,
        topics: [topic],
        process: (owned) =>
          readUntilLost(owned, () => {
            throw new Error('a bug');
          }),
      });
      await expect(failing.failed).rejects.toThrow('a bug');
      await until(() => failing.assigned().length === 0);
      const successor = await aMember(log(), group, topic);
      await untilAssigned(successor, 2);
      expect((await nextRecords(successor.current(1))).map(textOf)).toEqual(['poison']);
      await successor.consumer.stop();
    });

    it('stops while it waits for records', async () => {
      const topic = await aTopic(log());
      let isReading = false;
      let isDone = false;
      const consumer = await log().consume({
        group: aName('group'),
        topics: [topic],
        process: async (owned) => {
          isReading = true;
          expect(await owned.read({ maxRecords: 1, maxBytes: 1, waitMs: 60_000 })).toBeUndefined();
          expect(owned.signal.aborted).toBe(true);
          isDone = true;
        },
      });
      await until(() => isReading);
      await consumer.stop();
      expect(isDone).toBe(true);
    });
  });
}
