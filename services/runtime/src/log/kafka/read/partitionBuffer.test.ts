import { expect, test } from 'vitest';
import { LogTruncated } from '../../log.ts';
import type { Diverging } from './fetchProtocol.ts';
import { PartitionBuffer } from './partitionBuffer.ts';
import type { Chunk } from './recordBatches.ts';

const ALL = { maxRecords: 1000, maxBytes: 1_000_000 };

test('returns the records in consecutive, bounded batches', () => {
  const buffer = aBuffer();
  buffer.put(aChunk([0, 1, 2], { nextOffset: 4 }));
  buffer.put(aChunk([4], { nextOffset: 5 }));
  expect(taken(buffer, { ...ALL, maxRecords: 2 })).toEqual({ offsets: [0, 1], nextOffset: 2 });
  expect(buffer.position).toBe(2);
  expect(taken(buffer, { ...ALL, maxRecords: 1 })).toEqual({ offsets: [2], nextOffset: 4 });
  expect(taken(buffer, ALL)).toEqual({ offsets: [4], nextOffset: 5 });
  expect(taken(buffer, ALL)).toBeUndefined();
});

test('returns at least one record and no further record above the maximum bytes', () => {
  const buffer = aBuffer();
  buffer.put(aChunk([0, 1, 2], { size: 100 }));
  expect(taken(buffer, { ...ALL, maxBytes: 1 })).toEqual({ offsets: [0], nextOffset: 1 });
  expect(taken(buffer, { ...ALL, maxBytes: 199 })).toEqual({ offsets: [1], nextOffset: 2 });
});

test('returns an empty batch if only markers were passed', () => {
  const buffer = aBuffer();
  buffer.put(aChunk([], { nextOffset: 3 }));
  expect(taken(buffer, ALL)).toEqual({ offsets: [], nextOffset: 3 });
  expect(buffer.position).toBe(3);
});

test('discards its records after a seek', () => {
  const buffer = aBuffer();
  buffer.put(aChunk([0, 1, 2]));
  buffer.seek(1);
  expect([buffer.position, buffer.fetchOffset, buffer.isEmpty]).toEqual([1, 1, true]);
  buffer.put(aChunk([1, 2]));
  expect(taken(buffer, ALL)?.offsets).toEqual([1, 2]);
});

test('is full at its limit and wants records again after a read', () => {
  let drained = 0;
  const buffer = aBuffer(() => {
    drained += 1;
  });
  buffer.put(aChunk([0, 1, 2, 3], { size: 1024 * 1024 }));
  expect(buffer.isFull).toBe(true);
  buffer.take({ ...ALL, maxRecords: 1 });
  expect([buffer.isFull, drained]).toEqual([false, 1]);
});

test('tracks the leader epochs of returned records and of the next fetch', () => {
  const buffer = aBuffer();
  expect(buffer.leaderEpoch).toBe(-1);
  buffer.put(
    aChunk([0, 1, 2], {
      epochs: [
        [2, 0],
        [5, 2],
      ],
    }),
  );
  expect(buffer.leaderEpoch).toBe(5);
  expect(buffer.take({ ...ALL, maxRecords: 2 })?.leaderEpoch).toBe(2);
  expect(buffer.take(ALL)?.leaderEpoch).toBe(5);
  buffer.seek(2);
  expect(buffer.leaderEpoch).toBe(2);
  buffer.seek(7);
  expect(buffer.leaderEpoch).toBe(-1);
  buffer.seek(7, 4);
  expect(buffer.leaderEpoch).toBe(4);
});

test.each<[string, Diverging, number]>([
  ['whose epoch ends earlier', { epoch: 5, endOffset: 15 }, 15],
  ['that ends before the epoch', { epoch: 4, endOffset: 10 }, 10],
  ['that has other records instead of the epoch', { epoch: 3, endOffset: 300 }, 10],
  ['that lacks all known epochs', { epoch: 1, endOffset: 300 }, 4],
])('diverges from a log %s', (_, diverging, offset) => {
  const buffer = aBuffer();
  buffer.seek(4);
  buffer.put(
    aChunk([4, 10, 19], {
      epochs: [
        [3, 4],
        [5, 10],
      ],
    }),
  );
  expect(buffer.divergenceOffset(diverging)).toBe(offset);
});

test('diverges below its position if the log lacks its initial epoch', () => {
  const buffer = aBuffer();
  buffer.seek(20, 5);
  expect(buffer.divergenceOffset({ epoch: 5, endOffset: 12 })).toBe(12);
  expect(buffer.divergenceOffset({ epoch: 3, endOffset: 300 })).toBe(19);
});

test('diverges at its position or at the end of a log that lacks its maximum epoch', () => {
  const buffer = aBuffer();
  buffer.seek(20, undefined, 5);
  expect([buffer.leaderEpoch, buffer.lastFetchedEpoch]).toEqual([-1, 5]);
  expect(buffer.divergenceOffset({ epoch: 3, endOffset: 12 })).toBe(12);
  expect(buffer.divergenceOffset({ epoch: 3, endOffset: 300 })).toBe(20);
  buffer.truncate(20);
  // After the truncation, current records are read with any epoch.
  expect(buffer.lastFetchedEpoch).toBe(-1);
  buffer.seek(20, undefined, 5);
  buffer.put(aChunk([20], { epochs: [[4, 20]] }));
  expect([buffer.leaderEpoch, buffer.lastFetchedEpoch]).toEqual([4, 4]);
  expect(taken(buffer, ALL)).toEqual({ offsets: [20], nextOffset: 21 });
});

test('compares the maximum epoch with the log, although it has already fetched records with a newer epoch', () => {
  const buffer = aBuffer();
  buffer.put(
    aChunk([0, 1, 2, 3], {
      epochs: [
        [2, 0],
        [7, 1],
      ],
    }),
  );
  buffer.seek(3, undefined, 5);
  expect(buffer.lastFetchedEpoch).toBe(2);
  expect(buffer.divergenceOffset({ epoch: 2, endOffset: 1 })).toBe(1);
});

test('throws LogTruncated once, and offsets that were read can be committed', () => {
  const buffer = aBuffer();
  buffer.put(
    aChunk([0, 1, 2, 3], {
      epochs: [
        [2, 0],
        [3, 2],
      ],
    }),
  );
  buffer.take({ ...ALL, maxRecords: 3 });
  buffer.truncate(1);
  expect([buffer.fetchOffset, buffer.leaderEpoch, buffer.maxCommitOffset]).toEqual([1, 2, 4]);
  buffer.put(aChunk([1], { epochs: [[4, 1]] }));
  expect(() => buffer.take(ALL)).toThrow(LogTruncated);
  expect(taken(buffer, ALL)).toEqual({ offsets: [1], nextOffset: 2 });
});

test('refetches records after a truncation above the position, without an error', () => {
  const buffer = aBuffer();
  buffer.put(aChunk([0, 1, 2, 3], { epochs: [[2, 0]] }));
  buffer.take({ ...ALL, maxRecords: 1 });
  buffer.truncate(2);
  expect([buffer.fetchOffset, buffer.leaderEpoch]).toEqual([1, 2]);
  expect(taken(buffer, ALL)).toBeUndefined();
});

test.each<[string, number, number | undefined, boolean]>([
  ['before the truncation', 1, undefined, false],
  ['after the truncation', 3, undefined, true],
  ['after the truncation with an epoch for the next fetch', 3, 2, false],
])('handles a seek %s before LogTruncated was thrown', (_, offset, leaderEpoch, isReported) => {
  const buffer = aBuffer();
  buffer.put(aChunk([0, 1, 2, 3]));
  buffer.take(ALL);
  buffer.truncate(2);
  buffer.seek(offset, leaderEpoch);
  if (isReported) expect(() => buffer.take(ALL)).toThrow(LogTruncated);
  else expect(taken(buffer, ALL)).toBeUndefined();
  expect(buffer.position).toBe(isReported ? 2 : offset);
});

test('passes expired records, whose epochs are unknown', () => {
  const buffer = aBuffer();
  buffer.put(aChunk([0], { epochs: [[2, 0]] }));
  buffer.skipTo(9);
  expect([buffer.fetchOffset, buffer.leaderEpoch, buffer.minBatchOffset]).toEqual([9, -1, 0]);
  expect(taken(buffer, ALL)).toEqual({ offsets: [0], nextOffset: 9 });
});

test('discards all records after its release, including late ones', () => {
  const buffer = aBuffer();
  buffer.put(aChunk([0]));
  buffer.release();
  buffer.put(aChunk([1]));
  expect([buffer.bufferedBytes, buffer.isEmpty]).toEqual([0, true]);
});

function aBuffer(drained: () => void = () => undefined): PartitionBuffer {
  const at = { topic: 't', clusterTopic: 'prefix.t', partition: 0, position: 0 };
  return new PartitionBuffer(at, { filled: () => undefined, drained, released: () => undefined });
}

function taken(buffer: PartitionBuffer, bounds: typeof ALL) {
  const batch = buffer.take(bounds);
  return batch && { offsets: batch.records.map(({ offset }) => offset), nextOffset: batch.nextOffset };
}

function aChunk(
  offsets: number[],
  {
    size = 10,
    nextOffset = (offsets.at(-1) ?? -1) + 1,
    epochs = [],
  }: { size?: number; nextOffset?: number; epochs?: [number, number][] } = {},
): Chunk {
  return {
    records: offsets.map((offset) => ({ offset, timestampMs: 0, key: null, value: null, headers: {} })),
    sizes: offsets.map(() => size),
    bytes: 0,
    nextOffset,
    epochs: epochs.map(([epoch, startOffset]) => ({ epoch, startOffset })),
  };
}
