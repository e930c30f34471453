/** Contract tests for transactions: all or none of the writes are applied, and a new producer fences older producers. */
import { describe, expect, it } from 'vitest';
import { Fenced } from '../../process/errors.ts';
import { RecordTooLarge } from '../log.ts';
import {
  aMember,
  aName,
  aRecord,
  aTopic,
  readToEnd,
  type Subject,
  textOf,
  textsToEnd,
  until,
  untilAssigned,
  untilReads,
} from './harness.ts';

export function describeTransactions({ log }: Subject): void {
  describe('a transaction', () => {
    it('appends to several partitions and commits offsets atomically', async () => {
      const [input, output, changelog] = [
        await aTopic(log()),
        await aTopic(log(), { partitions: 2 }),
        await aTopic(log()),
      ];
      const group = aName('group');
      await log().append(input, 0, [aRecord('in')]);
      const member = await aMember(log(), group, input);
      await untilAssigned(member, 1);
      const producer = await log().transactionalProducer(aName('producer'));
      const appended = await producer.commit({
        appends: [
          { topic: output, partition: 1, records: [aRecord('out 0'), aRecord('out 1')] },
          { topic: changelog, partition: 0, records: [aRecord('state')] },
        ],
        commits: [{ owned: member.current(0), topic: input, committed: { offset: 1, metadata: 'done' } }],
      });
      expect(appended).toEqual([{ baseOffset: 0 }, { baseOffset: 0 }]);
      await untilReads(log(), output, [[], ['out 0', 'out 1']]);
      await untilReads(log(), changelog, [['state']]);
      await until(async () => (await log().committed(group, input))[0]?.metadata === 'done');
      expect(await log().committed(group, input)).toEqual([{ offset: 1, metadata: 'done' }]);
      await producer.close();
      await member.consumer.stop();
    });

    it('can follow other transactions and plain appends', async () => {
      const topic = await aTopic(log());
      const producer = await log().transactionalProducer(aName('producer'));
      const texts: string[] = [];
      for (const text of ['a', 'b', 'c']) {
        await producer.commit({ appends: [{ topic, partition: 0, records: [aRecord(text)] }] });
        await log().append(topic, 0, [aRecord(`after ${text}`)]);
        texts.push(text, `after ${text}`);
      }
      await untilReads(log(), topic, [texts]);
      // Every transaction ends with a marker. The marker takes one offset, and readers do not receive the marker.
      await until(async () => (await log().endOffsets(topic))[0] === 9);
      const [records = []] = await readToEnd(log(), topic);
      expect(records.map(textOf)).toEqual(texts);
      expect(new Set(records.map(({ offset }) => offset)).size).toBe(6);
      await producer.close();
    });

    it('can commit offsets without appends', async () => {
      const [topic, group] = [await aTopic(log()), aName('group')];
      await log().append(topic, 0, [aRecord('in')]);
      const member = await aMember(log(), group, topic);
      await untilAssigned(member, 1);
      const producer = await log().transactionalProducer(aName('producer'));
      const commits = [{ owned: member.current(0), topic, committed: { offset: 1, metadata: '' } }];
      expect(await producer.commit({ appends: [], commits })).toEqual([]);
      await until(async () => (await log().committed(group, topic))[0]?.offset === 1);
      await producer.close();
      await member.consumer.stop();
    });

    it('of an older producer is fenced and stays invisible', async () => {
      const [topic, group, id] = [await aTopic(log()), aName('group'), aName('producer')];
      await log().append(topic, 0, [aRecord('in')]);
      const member = await aMember(log(), group, topic);
      await untilAssigned(member, 1);
      const older = await log().transactionalProducer(id);
      await older.commit({ appends: [{ topic, partition: 0, records: [aRecord('older')] }] });
      const newer = await log().transactionalProducer(id);
      const late = older.commit({
        appends: [{ topic, partition: 0, records: [aRecord('late')] }],
        commits: [{ owned: member.current(0), topic, committed: { offset: 1, metadata: 'late' } }],
      });
      await expect(late).rejects.toBeInstanceOf(Fenced);
      await newer.commit({ appends: [{ topic, partition: 0, records: [aRecord('newer')] }] });
      await untilReads(log(), topic, [['in', 'older', 'newer']]);
      expect(await log().committed(group, topic)).toEqual([undefined]);
      await Promise.all([older.close(), newer.close(), member.consumer.stop()]);
    });

    it('for a lost partition is fenced and stays invisible', async () => {
      const [input, output] = [await aTopic(log()), await aTopic(log())];
      const group = aName('group');
      await log().append(input, 0, [aRecord('in')]);
      const first = await aMember(log(), group, input);
      await untilAssigned(first, 1);
      const old = first.current(0);
      await first.consumer.stop();
      const second = await aMember(log(), group, input);
      await until(() => second.consumer.assigned().length === 1);
      const producer = await log().transactionalProducer(aName('producer'));
      const late = producer.commit({
        appends: [{ topic: output, partition: 0, records: [aRecord('late')] }],
        commits: [{ owned: old, topic: input, committed: { offset: 1, metadata: 'late' } }],
      });
      await expect(late).rejects.toBeInstanceOf(Fenced);
      expect(await textsToEnd(log(), output)).toEqual([[]]);
      expect(await log().committed(group, input)).toEqual([undefined]);
      await Promise.all([producer.close(), second.consumer.stop()]);
    });

    it('with a record that is too large is rejected, and the producer stays usable', async () => {
      const [topic, small] = [await aTopic(log()), await aTopic(log(), { maxRecordBytes: 100 })];
      const producer = await log().transactionalProducer(aName('producer'));
      const rejected = producer.commit({
        appends: [
          { topic, partition: 0, records: [aRecord('rejected')] },
          { topic: small, partition: 0, records: [aRecord('x'.repeat(101))] },
        ],
      });
      await expect(rejected).rejects.toBeInstanceOf(RecordTooLarge);
      await producer.commit({ appends: [{ topic, partition: 0, records: [aRecord('accepted')] }] });
      await untilReads(log(), topic, [['accepted']]);
      expect(await textsToEnd(log(), small)).toEqual([[]]);
      await producer.close();
    });
  });
}
