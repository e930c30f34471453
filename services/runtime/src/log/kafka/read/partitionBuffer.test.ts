import { expect, test } from 'vitest';
import { type Chunk, chunkOf, type FetchedMessage, type PartitionAnswer } from './fetchAnswer.ts';
import { PartitionBuffer } from './partitionBuffer.ts';

const ALL = { maxRecords: 1000, maxBytes: 1_000_000 };

test('gives what was put, in bounded batches that follow one another', () => {
  const buffer = aBuffer();
  buffer.put(aChunk([0, 1, 2], { nextOffset: 4 }));
  buffer.put(aChunk([4], { nextOffset: 5 }));
  expect(taken(buffer, { ...ALL, maxRecords: 2 })).toEqual({ offsets: [0, 1], nextOffset: 2 });
  expect(buffer.position).toBe(2);
  expect(taken(buffer, { ...ALL, maxRecords: 1 })).toEqual({ offsets: [2], nextOffset: 4 });
  expect(taken(buffer, ALL)).toEqual({ offsets: [4], nextOffset: 5 });
  expect(taken(buffer, ALL)).toBeUndefined();
});

test('gives one record, however large, and no second one beyond the bytes', () => {
  const buffer = aBuffer();
  buffer.put(aChunk([0, 1, 2], { size: 100 }));
  expect(taken(buffer, { ...ALL, maxBytes: 1 })).toEqual({ offsets: [0], nextOffset: 1 });
  expect(taken(buffer, { ...ALL, maxBytes: 199 })).toEqual({ offsets: [1], nextOffset: 2 });
});

test('gives an empty batch where only markers were passed', () => {
  const buffer = aBuffer();
  buffer.put(aChunk([], { nextOffset: 3 }));
  expect(taken(buffer, ALL)).toEqual({ offsets: [], nextOffset: 3 });
  expect(buffer.position).toBe(3);
});

test('forgets what it holds when it is sought elsewhere', () => {
  const buffer = aBuffer();
  buffer.put(aChunk([0, 1, 2]));
  buffer.seek(1);
  expect([buffer.position, buffer.fetchOffset, buffer.isEmpty]).toEqual([1, 1, true]);
  buffer.put(aChunk([1, 2]));
  expect(taken(buffer, ALL)?.offsets).toEqual([1, 2]);
});

test('is full at its bound, and wants more when it was read', () => {
  let drained = 0;
  const buffer = aBuffer(() => {
    drained += 1;
  });
  buffer.put(aChunk([0, 1, 2, 3], { size: 1024 * 1024 }));
  expect(buffer.isFull).toBe(true);
  buffer.take({ ...ALL, maxRecords: 1 });
  expect([buffer.isFull, drained]).toEqual([false, 1]);
});

test('a chunk ends behind its last record batch, whose last records may be gone', () => {
  const answer = anAnswer([aMessage(4, { first: 3, last: 9 })]);
  expect(chunkOf(answer, 3)).toMatchObject({ records: [{ offset: 4 }], nextOffset: 10 });
  // From there only the same batch comes again when the brokers are asked for what is gone.
  expect(chunkOf(answer, 6)).toEqual({ records: [], sizes: [], nextOffset: 10 });
  expect(chunkOf(answer, 10)).toBeUndefined();
  expect(chunkOf(anAnswer([]), 0)).toBeUndefined();
});

test('a chunk holds records from its position on, as they were appended', () => {
  const answer = anAnswer([
    aMessage(0),
    {
      ...aMessage(1),
      key: Buffer.from(''),
      headers: { a: Buffer.from('é'), b: [Buffer.from('1'), Buffer.from('2')], none: null },
    },
    { ...aMessage(2), key: null, value: null },
    { ...aMessage(3), isControlRecord: true },
  ]);
  expect(chunkOf(answer, 1)).toEqual({
    records: [
      {
        offset: 1,
        timestampMs: 1700000000001,
        key: '',
        value: Buffer.from('value'),
        headers: { a: 'é', b: '2', none: '' },
      },
      { offset: 2, timestampMs: 1700000000002, key: null, value: null, headers: {} },
    ],
    sizes: [5, 0],
    nextOffset: 4,
  });
});

function aBuffer(drained: () => void = () => undefined): PartitionBuffer {
  const at = { topic: 't', clusterTopic: 'prefix.t', partition: 0, position: 0 };
  return new PartitionBuffer(at, { filled: () => undefined, drained, released: () => undefined });
}

function taken(buffer: PartitionBuffer, bounds: typeof ALL) {
  const batch = buffer.take(bounds);
  return batch && { offsets: batch.records.map(({ offset }) => offset), nextOffset: batch.nextOffset };
}

function aChunk(offsets: number[], { size = 10, nextOffset = (offsets.at(-1) ?? -1) + 1 } = {}): Chunk {
  return {
    records: offsets.map((offset) => ({ offset, timestampMs: 0, key: null, value: null, headers: {} })),
    sizes: offsets.map(() => size),
    nextOffset,
  };
}

function anAnswer(messages: FetchedMessage[]): PartitionAnswer {
  return { partition: 0, lastStableOffset: '100', abortedTransactions: null, messages };
}

function aMessage(offset: number, { first = offset, last = offset } = {}): FetchedMessage {
  return {
    offset: String(offset),
    timestamp: String(1700000000000 + offset),
    key: Buffer.from('key'),
    value: Buffer.from('value'),
    headers: {},
    isControlRecord: false,
    batchContext: {
      firstOffset: String(first),
      lastOffsetDelta: last - first,
      producerId: '-1',
      inTransaction: false,
    },
  };
}
