/** Contract tests for the creation of topics and for appends. Every log adapter runs these tests. */
import { describe, expect, it } from 'vitest';
import { StartRefused, Unavailable } from '../../process/errors.ts';
import { yieldToEventLoop } from '../../process/waiting.ts';
import type { Appended, NewRecord } from '../log.ts';
import { RecordTooLarge } from '../log.ts';
import { aName, aRecord, aTopic, readToEnd, type Subject, textsToEnd } from './harness.ts';

export function describeAppends({ harness, log, reopen }: Subject): void {
  describe('topics', () => {
    it('start empty at offset 0', async () => {
      const topic = await aTopic(log(), { partitions: 3 });
      expect(await log().partitionCount(topic)).toBe(3);
      expect(await log().startOffsets(topic)).toEqual([0, 0, 0]);
      expect(await log().endOffsets(topic)).toEqual([0, 0, 0]);
      expect(await log().committed(aName('group'), topic)).toEqual([undefined, undefined, undefined]);
      expect(await textsToEnd(log(), topic)).toEqual([[], [], []]);
    });

    it('stay unchanged when they are ensured again', async () => {
      const spec = { partitions: 2, cleanup: { policy: 'compact' }, maxRecordBytes: 1000 } as const;
      const topic = await aTopic(log(), spec);
      await log().append(topic, 1, [aRecord('kept')]);
      await log().ensureTopics([{ name: topic, ...spec }]);
      expect(await textsToEnd(log(), topic)).toEqual([[], ['kept']]);
    });

    it('report their retention', async () => {
      const week = 7 * 24 * 60 * 60 * 1000;
      const retention = await log().retention(
        await aTopic(log(), { cleanup: { policy: 'delete', retentionMs: week } }),
      );
      expect(retention.retentionMs).toBe(week);
      expect(retention.deletedAfterMs).toBeGreaterThanOrEqual(week);
      const compacted = await aTopic(log(), { cleanup: { policy: 'compact' } });
      expect((await log().retention(compacted)).retentionMs).toBe(Number.POSITIVE_INFINITY);
    });

    it('reject another partition count as StartRefused', async () => {
      const topic = await aTopic(log(), { partitions: 2 });
      const spec = {
        name: topic,
        partitions: 3,
        cleanup: { policy: 'compact' },
        maxRecordBytes: 1000,
      } as const;
      await expect(log().ensureTopics([spec])).rejects.toBeInstanceOf(StartRefused);
      expect(await log().endOffsets(topic)).toHaveLength(2);
    });
  });

  describe('append', () => {
    it('assigns contiguous offsets to concurrent appends in the order of the calls', async () => {
      const topic = await aTopic(log());
      const appends = Array.from({ length: 60 }, (_, call) =>
        Array.from({ length: 1 + (call % 3) }, (_, index) => aRecord(`${call}.${index}`)),
      );
      const appending: Promise<Appended>[] = [];
      for (const records of appends) {
        appending.push(log().append(topic, 0, records));
        // Waits only after an append of one record. After an append of several records, starts the next append immediately, so
        // that some appends start before the log has cached the topic's limits.
        if (records.length === 1) await yieldToEventLoop();
      }
      const appended = await Promise.all(appending);
      let offset = 0;
      for (const [call, { baseOffset }] of appended.entries()) {
        expect(baseOffset).toBe(offset);
        offset += appends[call]?.length ?? 0;
      }
      const [records = []] = await readToEnd(log(), topic);
      expect(records.map((record) => record.offset)).toEqual(records.map((_, index) => index));
      expect(records.map((record) => record.value)).toEqual(appends.flat().map((record) => record.value));
    });

    it('makes records visible when it resolves', async () => {
      const topic = await aTopic(log(), { partitions: 2 });
      for (let count = 1; count <= 10; count += 1) {
        await Promise.all([0, 1].map((partition) => log().append(topic, partition, [aRecord(`${count}`)])));
        expect(await log().endOffsets(topic)).toEqual([count, count]);
        expect(await log().endOffset(topic, 1)).toBe(count);
        const range = { startOffset: 0, endOffset: count };
        expect(await log().offsetRanges(topic)).toEqual([range, range]);
        const texts = Array.from({ length: count }, (_, index) => `${index + 1}`);
        expect(await textsToEnd(log(), topic)).toEqual([texts, texts]);
      }
    });

    it('rejects an append with a record that is too large and writes nothing', async () => {
      const topic = await aTopic(log(), { maxRecordBytes: 1000 });
      const large = log().append(topic, 0, [aRecord('before'), aRecord('x'.repeat(1001)), aRecord('after')]);
      await expect(large).rejects.toBeInstanceOf(RecordTooLarge);
      const largeHeader = { ...aRecord('small'), headers: { name: 'x'.repeat(1001) } };
      await expect(log().append(topic, 0, [largeHeader])).rejects.toBeInstanceOf(RecordTooLarge);
      expect(await log().endOffsets(topic)).toEqual([0]);
      expect(await log().append(topic, 0, [aRecord('next')])).toEqual({ baseOffset: 0 });
      expect(await textsToEnd(log(), topic)).toEqual([['next']]);
    });

    it('keeps keys, values, and headers unchanged', async () => {
      const topic = await aTopic(log());
      const expected: NewRecord[] = [
        {
          key: 'plain',
          value: Buffer.from('text'),
          headers: { 'append-id': 'a1', empty: '', ключ: 'значение' },
        },
        { key: null, value: Buffer.from('no key') },
        { key: '', value: Buffer.alloc(0), headers: {} },
        {
          key: 'snow\u2603\u0000\u{1f600}',
          value: Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)),
        },
        { key: 'tombstone', value: null, headers: { why: 'forgotten' } },
        { key: 'large', value: Buffer.alloc(300_000, 'ab') },
      ];
      await log().append(topic, 0, expected);
      const [records = []] = await readToEnd(log(), topic);
      expect(records).toEqual(
        expected.map((record, offset) => ({
          offset,
          timestampMs: expect.any(Number),
          headers: {},
          ...record,
        })),
      );
    });

    it('throws an error other than Unavailable for a missing topic or partition', async () => {
      const topic = await aTopic(log(), { partitions: 2 });
      for (const append of [
        () => log().append(aName('missing'), 0, [aRecord('lost')]),
        () => log().append(topic, 2, [aRecord('lost')]),
      ]) {
        const error = await append().catch((thrown: unknown) => thrown);
        expect(error).toBeInstanceOf(Error);
        expect(error).not.toBeInstanceOf(Unavailable);
      }
      expect(await log().endOffsets(topic)).toEqual([0, 0]);
    });

    it.runIf(harness.reopen)('keeps records after the log was closed and reopened', async () => {
      const topic = await aTopic(log(), { partitions: 2 });
      await log().append(topic, 1, [aRecord('first'), aRecord('second')]);
      const { id } = log();
      await reopen(async (old) => (await harness.reopen?.(old)) ?? old);
      expect(log().id).toBe(id);
      expect(await log().endOffsets(topic)).toEqual([0, 2]);
      expect(await log().append(topic, 1, [aRecord('third')])).toEqual({ baseOffset: 2 });
      expect(await textsToEnd(log(), topic)).toEqual([[], ['first', 'second', 'third']]);
    });
  });
}
