/** Contract tests for tails. A tail reads a topic without a consumer group. */

import { describe, expect, it } from 'vitest';
import type { Batch, Log, TailOptions } from '../log.ts';
import type { TruncatedRange } from '../truncation/participants.ts';
import { aName, aRecord, aTopic, readToEnd, type Subject, textOf, textsToEnd, until } from './harness.ts';

export function describeTails({ harness, log }: Subject): void {
  describe('tail', () => {
    it('reads existing and then new records from the earliest offset', async () => {
      const topic = await aTopic(log(), { partitions: 2 });
      await log().append(topic, 0, [aRecord('a0'), aRecord('a1')]);
      const { tail, texts } = await aTail(log(), { topic, from: 'earliest' });
      await tail.waitForOffsets(await log().endOffsets(topic));
      expect(texts).toEqual([['a0', 'a1'], []]);
      await log().append(topic, 1, [aRecord('b0')]);
      await log().append(topic, 0, [aRecord('a2')]);
      await tail.waitForOffsets([3, 1]);
      expect(texts).toEqual([['a0', 'a1', 'a2'], ['b0']]);
      expect(tail.positions()).toEqual([3, 1]);
      await tail.close();
    });

    it('starts at the given offsets', async () => {
      const topic = await aTopic(log(), { partitions: 2 });
      await log().append(topic, 0, [aRecord('a0'), aRecord('a1'), aRecord('a2')]);
      await log().append(topic, 1, [aRecord('b0')]);
      const { tail, texts } = await aTail(log(), { topic, from: [1, 1] });
      await log().append(topic, 1, [aRecord('b1')]);
      await tail.waitForOffsets([3, 2]);
      expect(texts).toEqual([['a1', 'a2'], ['b1']]);
      await tail.close();
    });

    it('reads only the given partitions', async () => {
      const topic = await aTopic(log(), { partitions: 3 });
      const { tail, texts } = await aTail(log(), { topic, from: 'earliest', partitions: [1] });
      for (const partition of [0, 2, 1]) await log().append(topic, partition, [aRecord(`${partition}`)]);
      await tail.waitForOffsets([0, 1, 0]);
      expect(await textsToEnd(log(), topic)).toEqual([['0'], ['1'], ['2']]);
      expect(texts).toEqual([[], ['1'], []]);
      await tail.close();
    });

    it('reports a truncation and starts at the end if the given offset is beyond the end', async () => {
      const topic = await aTopic(log(), { partitions: 2 });
      await log().append(topic, 0, [aRecord('a0')]);
      const truncations: unknown[] = [];
      const onTruncated = ({ partition, offset }: TruncatedRange) =>
        void truncations.push([partition, offset]);
      const { tail, texts } = await aTail(log(), { topic, from: [5, 5], onTruncated });
      await log().append(topic, 0, [aRecord('a1')]);
      await tail.waitForOffsets([2, 0]);
      expect(texts).toEqual([['a1'], []]);
      expect(tail.positions()).toEqual([2, 0]);
      expect(truncations.sort()).toEqual([
        [0, 1],
        [1, 0],
      ]);
      await tail.close();
    });

    it('delivers batches in order, one at a time per partition', async () => {
      const [topic, otherTopic] = [await aTopic(log(), { partitions: 2 }), await aTopic(log())];
      const positions = [0, 0];
      const busy = [false, false];
      const tail = await log().tail({
        topic,
        from: 'earliest',
        onBatch: async ({ partition, records, nextOffset }) => {
          expect(busy[partition]).toBe(false);
          busy[partition] = true;
          await log().append(otherTopic, 0, [aRecord('slow')]);
          for (const { offset } of records) expect(offset).toBeGreaterThanOrEqual(positions[partition] ?? 0);
          expect(nextOffset).toBeGreaterThan(records.at(-1)?.offset ?? -1);
          positions[partition] = nextOffset;
          busy[partition] = false;
        },
      });
      for (let round = 0; round < 20; round += 1) {
        await Promise.all(
          [0, 1, 0].map((partition) => log().append(topic, partition, [aRecord(`${round}`)])),
        );
      }
      await Promise.race([tail.waitForOffsets([40, 20]), tail.failed]);
      expect(positions).toEqual([40, 20]);
      await tail.close();
    });

    it('reaches an offset only after onBatch has returned for all records below it', async () => {
      const topic = await aTopic(log());
      await log().append(topic, 0, [aRecord('slow')]);
      const started = Promise.withResolvers<void>();
      const mayFinish = Promise.withResolvers<void>();
      let isDone = false;
      const tail = await log().tail({
        topic,
        from: 'earliest',
        onBatch: async () => {
          started.resolve();
          await mayFinish.promise;
          isDone = true;
        },
      });
      const reached = tail.waitForOffsets([1]).then(() => expect(isDone).toBe(true));
      await started.promise;
      expect(await textsToEnd(log(), topic)).toEqual([['slow']]);
      expect(tail.positions()).toEqual([0]);
      mayFinish.resolve();
      await reached;
      await tail.waitForOffsets([0]);
      await tail.close();
    });

    it('stops a wait for offsets when the signal aborts or the tail is closed', async () => {
      const topic = await aTopic(log());
      const { tail } = await aTail(log(), { topic, from: 'earliest' });
      const abort = new AbortController();
      const abortedWait = tail.waitForOffsets([1], abort.signal);
      abort.abort(new Error('aborted'));
      await expect(abortedWait).rejects.toThrow('aborted');
      const waiting = tail.waitForOffsets([1]);
      const rejected = expect(waiting).rejects.toThrow();
      await tail.close();
      await rejected;
      await expect(tail.waitForOffsets([1])).rejects.toThrow();
    });

    it('fails with the error of onBatch and delivers no more batches', async () => {
      const topic = await aTopic(log());
      let calls = 0;
      const tail = await log().tail({
        topic,
        from: 'earliest',
        onBatch: () => {
          calls += 1;
          throw new Error('cannot process');
        },
      });
      const failed = expect(tail.failed).rejects.toThrow('cannot process');
      const waiting = expect(tail.waitForOffsets([1])).rejects.toThrow('cannot process');
      await log().append(topic, 0, [aRecord('first')]);
      await Promise.all([failed, waiting]);
      await log().append(topic, 0, [aRecord('second')]);
      expect(await textsToEnd(log(), topic)).toEqual([['first', 'second']]);
      expect(calls).toBe(1);
      expect(tail.positions()).toEqual([0]);
      await tail.close();
    });

    it('delivers nothing after it is closed', async () => {
      const topic = await aTopic(log());
      const { tail, texts } = await aTail(log(), { topic, from: 'earliest' });
      await log().append(topic, 0, [aRecord('seen')]);
      await tail.waitForOffsets([1]);
      await tail.close();
      await tail.close();
      await log().append(topic, 0, [aRecord('unseen')]);
      expect(await textsToEnd(log(), topic)).toEqual([['seen', 'unseen']]);
      expect(texts).toEqual([['seen']]);
    });

    it('reaches an end that consists of transaction markers', async () => {
      const topic = await aTopic(log(), { partitions: 2 });
      const { tail, batches } = await aTail(log(), { topic, from: 'earliest' });
      const producer = await log().transactionalProducer(aName('producer'));
      for (const text of ['a', 'b', 'c']) {
        await producer.commit({ appends: [{ topic, partition: 1, records: [aRecord(text)] }] });
      }
      await producer.close();
      // The three transactions leave three records and three transaction markers, so the end offset becomes 6.
      await until(async () => (await log().endOffsets(topic))[1] === 6);
      await tail.waitForOffsets([0, 6]);
      expect(tail.positions()).toEqual([0, 6]);
      expect(batches.at(-1)?.nextOffset).toBe(6);
      const [, records = []] = await readToEnd(log(), topic);
      expect(records.map(textOf)).toEqual(['a', 'b', 'c']);
      await tail.close();
    });

    it('reaches the end after the last records were compacted', async () => {
      const topic = await aTopic(log(), { cleanup: { policy: 'compact' } });
      await log().append(topic, 0, [aRecord('kept', 'a'), aRecord('old', 'b'), aRecord('older', 'b')]);
      await log().append(topic, 0, [{ key: 'b', value: null }]);
      await harness.compact?.(log());
      const [records = []] = await readToEnd(log(), topic);
      // Compaction can remove old values late, but it never removes the latest record of a key.
      expect(records[0]).toMatchObject({ offset: 0, key: 'a', value: Buffer.from('kept') });
      const last = records.findLast((record) => record.key === 'b');
      expect(last?.value ?? null).toBeNull();
      expect(await log().append(topic, 0, [aRecord('next', 'b')])).toEqual({ baseOffset: 4 });
    });
  });
}

async function aTail(log: Log, options: Omit<TailOptions, 'onBatch'>) {
  const texts: (string | undefined)[][] = (await log.endOffsets(options.topic)).map(() => []);
  const batches: Batch[] = [];
  const tail = await log.tail({
    ...options,
    onBatch: (batch) => {
      batches.push(batch);
      texts[batch.partition]?.push(...batch.records.map(textOf));
    },
  });
  return { tail, texts, batches };
}
