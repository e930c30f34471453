import { expect, test } from 'vitest';
import { LogTruncated } from '../../log.ts';
import type { Diverging } from './fetchProtocol.ts';
import { PartitionBuffer } from './partitionBuffer.ts';
import type { Chunk } from './recordBatches.ts';

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

test('knows the leader epoch of what it gives, and of what it wants next', () => {
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
  ['of the same epoch, which ends earlier', { epoch: 5, endOffset: 15 }, 15],
  ['that lacks the epoch, and ends where it began', { epoch: 4, endOffset: 10 }, 10],
  ['that lacks the epoch, and was longer before it', { epoch: 3, endOffset: 300 }, 10],
  ['that lacks all that is known', { epoch: 1, endOffset: 300 }, 4],
])('parts from a log %s', (_, diverging, offset) => {
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

test('parts below its position from a log that lacks the epoch which it was opened with', () => {
  const buffer = aBuffer();
  buffer.seek(20, 5);
  expect(buffer.divergenceOffset({ epoch: 5, endOffset: 12 })).toBe(12);
  expect(buffer.divergenceOffset({ epoch: 3, endOffset: 300 })).toBe(19);
});

test('parts at its position, or below where the log ends, from one that lacks the epoch up to which it was known', () => {
  const buffer = aBuffer();
  buffer.seek(20, undefined, 5);
  expect([buffer.leaderEpoch, buffer.lastFetchedEpoch]).toEqual([-1, 5]);
  expect(buffer.divergenceOffset({ epoch: 3, endOffset: 12 })).toBe(12);
  expect(buffer.divergenceOffset({ epoch: 3, endOffset: 300 })).toBe(20);
  buffer.truncate(20);
  // What is there is read, whatever its epoch.
  expect(buffer.lastFetchedEpoch).toBe(-1);
  buffer.seek(20, undefined, 5);
  buffer.put(aChunk([20], { epochs: [[4, 20]] }));
  expect([buffer.leaderEpoch, buffer.lastFetchedEpoch]).toEqual([4, 4]);
  expect(taken(buffer, ALL)).toEqual({ offsets: [20], nextOffset: 21 });
});

test('tells its reader once of a cut below its position, and what was read may be committed', () => {
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

test('only fetches anew what its reader has not come to before the cut', () => {
  const buffer = aBuffer();
  buffer.put(aChunk([0, 1, 2, 3], { epochs: [[2, 0]] }));
  buffer.take({ ...ALL, maxRecords: 1 });
  buffer.truncate(2);
  expect([buffer.fetchOffset, buffer.leaderEpoch]).toEqual([1, 2]);
  expect(taken(buffer, ALL)).toBeUndefined();
});

test.each<[string, number, number | undefined, boolean]>([
  ['before the cut', 1, undefined, false],
  ['behind the cut', 3, undefined, true],
  ['behind the cut with the epoch, which the next fetch compares', 3, 2, false],
])('a reader that seeks %s before it was told', (_, offset, leaderEpoch, isTold) => {
  const buffer = aBuffer();
  buffer.put(aChunk([0, 1, 2, 3]));
  buffer.take(ALL);
  buffer.truncate(2);
  buffer.seek(offset, leaderEpoch);
  if (isTold) expect(() => buffer.take(ALL)).toThrow(LogTruncated);
  else expect(taken(buffer, ALL)).toBeUndefined();
  expect(buffer.position).toBe(isTold ? 2 : offset);
});

test('passes what retention has removed, of which no epoch is known', () => {
  const buffer = aBuffer();
  buffer.put(aChunk([0], { epochs: [[2, 0]] }));
  buffer.skipTo(9);
  expect([buffer.fetchOffset, buffer.leaderEpoch, buffer.minBatchOffset]).toEqual([9, -1, 0]);
  expect(taken(buffer, ALL)).toEqual({ offsets: [0], nextOffset: 9 });
});

test('holds nothing for a partition that was given up, also of what comes late', () => {
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
