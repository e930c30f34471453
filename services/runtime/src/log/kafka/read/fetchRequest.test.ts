import type { Broker } from 'kafkajs';
import { expect, test } from 'vitest';
import { fetchFrom } from './fetchRequest.ts';
import { PartitionBuffer } from './partitionBuffer.ts';

const ALL = { maxRecords: 1000, maxBytes: 1_000_000 };

test('asks for all partitions together, each from where its buffer ends', async () => {
  const [one, other] = [aBuffer(0, 5), aBuffer(1, 7)];
  const { broker, asked } = aBroker([{ 0: { messages: [5, 6] }, 1: { messages: [7] } }]);
  await fetchFrom(broker, [one, other], aSituation());
  expect(asked).toMatchObject([{ 0: '5', 1: '7' }]);
  expect(one.take(ALL)).toMatchObject({ records: [{ offset: 5 }, { offset: 6 }], nextOffset: 7 });
  expect(other.take(ALL)).toMatchObject({ records: [{ offset: 7 }], nextOffset: 8 });
});

test('drops what comes for a position that was left meanwhile', async () => {
  const buffer = aBuffer(0, 5);
  const { broker } = aBroker([{ 0: { messages: [5, 6] } }], () => buffer.seek(2));
  await fetchFrom(broker, [buffer], aSituation());
  expect([buffer.isEmpty, buffer.position]).toEqual([true, 2]);
});

test('waits where nothing is below the last stable offset', async () => {
  const buffer = aBuffer(0, 5);
  const { broker } = aBroker([{ 0: { stableEnd: 5 } }]);
  await fetchFrom(broker, [buffer], aSituation());
  expect([buffer.isEmpty, buffer.isAskedAlone]).toEqual([true, false]);
});

test('asks alone for a partition for which others left no room', async () => {
  const buffers = [aBuffer(0, 5), aBuffer(1, 7)];
  const { broker, asked } = aBroker([
    { 0: { stableEnd: 9 }, 1: { messages: [7] } },
    { 0: { messages: [5] } },
  ]);
  await fetchFrom(broker, buffers, aSituation());
  await fetchFrom(broker, buffers, aSituation());
  expect(asked[1]).toEqual({ 0: '5' });
  expect(buffers[0]?.take(ALL)).toMatchObject({ records: [{ offset: 5 }], nextOffset: 6 });
  expect(buffers[0]?.isAskedAlone).toBe(false);
});

test('passes batches without a record only where compaction makes such, and asked alone', async () => {
  const buffer = aBuffer(0, 5);
  const answers = [{ 0: { stableEnd: 9 } }, { 0: { stableEnd: 9 } }];
  await fetchFrom(aBroker(answers).broker, [buffer], aSituation());
  expect(buffer.isEmpty).toBe(true);
  await fetchFrom(aBroker(answers).broker, [buffer], aSituation({ isCompacted: true }));
  expect(buffer.take(ALL)).toEqual({ records: [], nextOffset: 9 });
});

test('never passes records that a broker holds back, and says so', async () => {
  const buffer = aBuffer(0, 5);
  const { broker } = aBroker([{ 0: { stableEnd: 9 } }, { 0: { stableEnd: 9 } }]);
  await fetchFrom(broker, [buffer], aSituation());
  const held = fetchFrom(broker, [buffer], aSituation());
  await expect(held).rejects.toThrow('no records come of t/0 from 5 to 9');
  expect([buffer.isEmpty, buffer.fetchOffset]).toEqual([true, 5]);
});

interface PartitionOfAnswer {
  readonly messages?: number[];
  readonly stableEnd?: number;
}

/** Gives the answers in turn, by partition. */
function aBroker(
  answers: readonly Record<number, PartitionOfAnswer>[],
  meanwhile: () => void = () => undefined,
) {
  const left = [...answers];
  const asked: Record<number, string>[] = [];
  const fetch: Broker['fetch'] = async ({ topics }) => {
    const partitions = topics.flatMap((topic) => topic.partitions);
    asked.push(Object.fromEntries(partitions.map(({ partition, fetchOffset }) => [partition, fetchOffset])));
    meanwhile();
    const answer = left.shift() ?? {};
    return {
      responses: Object.entries(answer).map(([partition, { messages = [], stableEnd = 100 }]) => ({
        topicName: 'prefix.t',
        partitions: [
          {
            partition: Number(partition),
            lastStableOffset: String(stableEnd),
            abortedTransactions: [],
            messages: messages.map(aMessage),
          },
        ],
      })),
    };
  };
  return { broker: { fetch } as unknown as Broker, asked };
}

function aMessage(offset: number) {
  return {
    offset: String(offset),
    timestamp: '0',
    key: null,
    value: Buffer.from('value'),
    headers: {},
    isControlRecord: false,
    batchContext: {
      firstOffset: String(offset),
      lastOffsetDelta: 0,
      producerId: '-1',
      inTransaction: false,
    },
  };
}

function aBuffer(partition: number, position: number): PartitionBuffer {
  return new PartitionBuffer(
    { topic: 't', clusterTopic: 'prefix.t', partition, position },
    { filled: () => undefined, drained: () => undefined, released: () => undefined },
  );
}

function aSituation({ isCompacted = false } = {}) {
  return {
    isAnyLeftOut: false,
    catalog: { limits: async () => ({ topic: 't', partitions: 1, maxBatchBytes: 1, isCompacted }) },
  };
}
