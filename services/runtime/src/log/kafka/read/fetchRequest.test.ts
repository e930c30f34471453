import { expect, test } from 'vitest';
import { StartRefused } from '../../../process/errors.ts';
import { aBatch } from './aBatch.testing.ts';
import { aBroker } from './aBroker.testing.ts';
import { fetchFromBroker } from './fetchRequest.ts';
import { PartitionBuffer } from './partitionBuffer.ts';

const ALL = { maxRecords: 1000, maxBytes: 1_000_000 };
const HERE = { isAnyExcluded: false };

test('requests all partitions at the ends of their buffers with the previous leader epochs', async () => {
  const [one, other] = [aBuffer(0, 5), aBuffer(1, 2 ** 40)];
  const { broker, requested } = aBroker(({ offset }) => ({ batches: batchOf(offset, 2, 7) }));
  expect(await fetchFromBroker(broker, [limited(one), limited(other)], HERE)).toEqual([]);
  expect(one.take(ALL)).toMatchObject({
    records: [{ offset: 5 }, { offset: 6 }],
    nextOffset: 7,
    leaderEpoch: 7,
  });
  expect(other.take(ALL)).toMatchObject({ records: [{ offset: 2 ** 40 }, { offset: 2 ** 40 + 1 }] });
  await fetchFromBroker(broker, [limited(one)], HERE);
  expect(requested).toEqual([
    [
      { topic: 'prefix.t', partition: 0, offset: 5, leaderEpoch: -1 },
      { topic: 'prefix.t', partition: 1, offset: 2 ** 40, leaderEpoch: -1 },
    ],
    [{ topic: 'prefix.t', partition: 0, offset: 7, leaderEpoch: 7 }],
  ]);
});

test('drops records of a position that has changed meanwhile', async () => {
  const buffer = aBuffer(0, 5);
  const { broker } = aBroker(({ offset }) => {
    buffer.seek(2);
    return { batches: batchOf(offset, 2) };
  });
  expect(await fetchFromBroker(broker, [limited(buffer)], HERE)).toEqual([]);
  expect([buffer.isEmpty, buffer.position]).toEqual([true, 2]);
});

test('returns no records if the log or the response has none', async () => {
  const buffers = [aBuffer(0, 5), aBuffer(1, 7), aBuffer(2, 9)];
  const part = batchOf(9, 1).subarray(0, 50);
  const { broker } = aBroker(
    ({ partition }) => [{}, { batches: batchOf(7, 1) }, { batches: part }][partition],
  );
  expect(await fetchFromBroker(broker, buffers.map(limited), HERE)).toEqual([]);
  expect(buffers.map(({ fetchOffset }) => fetchOffset)).toEqual([5, 8, 9]);
});

test('reports an incomplete first batch', async () => {
  const buffer = aBuffer(0, 5);
  const { broker } = aBroker(() => ({ batches: batchOf(5, 1).subarray(0, 50) }));
  expect(await messages(fetchFromBroker(broker, [limited(buffer)], HERE))).toEqual([
    [0, 'the response has no complete batch'],
  ]);
});

test('reports errors of one partition without affecting the others', async () => {
  const buffers = [0, 1, 2, 3, 4].map((partition) => aBuffer(partition, 0));
  const flipped = batchOf(0, 1);
  flipped[70] = (flipped[70] ?? 0) ^ 1;
  const { broker } = aBroker(
    ({ partition }) =>
      [
        { errorCode: 56 },
        { batches: flipped },
        { batches: aBatch({ codec: 'lz4' }) },
        { diverging: { epoch: 3, endOffset: 90 } },
        { batches: batchOf(0, 3) },
      ][partition],
  );
  expect(await messages(fetchFromBroker(broker, buffers.map(limited), HERE))).toEqual([
    [0, expect.stringContaining('Disk error')],
    [1, 'a batch has a wrong checksum'],
    [2, expect.stringContaining('lz4')],
    [3, 'leader epoch 3 ends at 90'],
  ]);
  expect(buffers.map(({ fetchOffset }) => fetchOffset)).toEqual([0, 0, 0, 0, 3]);
});

test('rejects a decompression bomb unless the topic allows its size', async () => {
  const bomb = aBatch({ codec: 'zstd', records: [{ delta: 0, value: Buffer.alloc(65 * 1024 * 1024) }] });
  const fetched = async (maxBatchBytes: number) => {
    const buffer = aBuffer(0, 0);
    const { broker } = aBroker(() => ({ batches: bomb }));
    return messages(
      fetchFromBroker(broker, [{ buffer, limits: { maxBatchBytes, isCompacted: false } }], HERE),
    );
  };
  expect(await fetched(1_000_000)).toEqual([
    [0, expect.stringContaining('exceeds 67108864 bytes after decompression')],
  ]);
  expect(await fetched(70 * 1024 * 1024)).toEqual([]);
});

test('fails if the whole response has an error', async () => {
  const { broker } = aBroker(() => ({}), { errorCode: 70 });
  await expect(fetchFromBroker(broker, [limited(aBuffer(0, 0))], HERE)).rejects.toMatchObject({
    type: 'FETCH_SESSION_ID_NOT_FOUND',
  });
});

test('reports the oldest supported Kafka version', async () => {
  const { broker, requested } = aBroker(() => ({}), { maxVersion: 11 });
  const rejected = await fetchFromBroker(broker, [limited(aBuffer(0, 0))], HERE).catch(
    (error: unknown) => error,
  );
  expect(rejected).toBeInstanceOf(StartRefused);
  expect(rejected).toMatchObject({ message: expect.stringMatching(/Fetch 4 to 11: .* since Kafka 2\.7/) });
  expect(requested).toEqual([]);
});

function limited(buffer: PartitionBuffer) {
  return { buffer, limits: { maxBatchBytes: 1_000_000, isCompacted: false } };
}

async function messages(failures: ReturnType<typeof fetchFromBroker>) {
  return (await failures).map(({ buffer, error }) => [buffer.partition, error.message]);
}

function batchOf(offset: number, records: number, leaderEpoch = 0): Buffer {
  const deltas = Array.from({ length: records }, (_, delta) => ({ delta, value: 'value' }));
  return aBatch({ offset, leaderEpoch, records: deltas });
}

function aBuffer(partition: number, position: number): PartitionBuffer {
  return new PartitionBuffer(
    { topic: 't', clusterTopic: 'prefix.t', partition, position },
    { filled: () => undefined, drained: () => undefined, released: () => undefined },
  );
}
