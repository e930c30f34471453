/** A position outside the log is moved into the log. Lost records are an error for a group, but not for a tail. */
import { expect, test } from 'vitest';
import type { Fields } from '../../../process/logger.ts';
import { adjustPosition } from './adjustPosition.ts';
import { PartitionBuffer } from './partitionBuffer.ts';

test('logs an error with the lost offsets if retention passes a group', async () => {
  const { reported, moved, buffer } = await afterMove({ group: 'g', position: 3, range: [10, 20] });
  expect(moved).toBe(true);
  expect(buffer.take({ maxRecords: 1, maxBytes: 1 })).toEqual({
    records: [],
    nextOffset: 10,
    isAfterExpired: true,
  });
  expect(reported).toEqual([
    ['error', 'log_removed_unprocessed', { group: 'g', topic: 't', partition: 0, offset: 3, start: 10 }],
  ]);
});

test('logs an info message if retention passes a tail', async () => {
  const { reported, moved, buffer } = await afterMove({ position: 3, range: [10, 20] });
  expect(moved).toBe(true);
  expect(buffer.fetchOffset).toBe(10);
  expect(reported).toEqual([
    ['info', 'log_removed_ahead', { topic: 't', partition: 0, offset: 3, start: 10 }],
  ]);
});

test('logs an error for a group beyond the end, and its read throws LogTruncated', async () => {
  const { reported, moved, buffer } = await afterMove({
    group: 'g',
    position: 21,
    range: [10, 20],
    isRepeated: true,
  });
  expect(moved).toBe(true);
  expect(() => buffer.take({ maxRecords: 1, maxBytes: 1 })).toThrow(
    't/0 was truncated at offset 20; it had been read up to 21',
  );
  const fields = { group: 'g', topic: 't', partition: 0, position: 21, offset: 20, leaderEpoch: -1 };
  expect(reported).toEqual([['error', 'log_cut_short', fields]]);
});

test('logs a warning for a tail beyond the end, and its read throws LogTruncated', async () => {
  const { reported, buffer } = await afterMove({ position: 21, range: [10, 20], isRepeated: true });
  expect(() => buffer.take({ maxRecords: 1, maxBytes: 1 })).toThrow('t/0 was truncated at offset 20');
  expect(reported).toMatchObject([['warn', 'log_cut_short', { position: 21, offset: 20 }]]);
});

test('retries an offset in range once, and then treats its leader epoch as unknown', async () => {
  const at = { group: 'g', position: 15, range: [10, 20], leaderEpoch: 7 } as const;
  expect(await afterMove(at)).toMatchObject({ moved: false, reported: [] });
  const { moved, buffer } = await afterMove({ ...at, isRepeated: true });
  expect([moved, buffer.fetchOffset]).toEqual([true, 14]);
});

test('keeps an offset in range with only an upper bound of its epoch, and drops the bound', async () => {
  const at = { group: 'g', position: 15, range: [10, 20], upToEpoch: 7 } as const;
  expect(await afterMove(at)).toMatchObject({ moved: false, reported: [] });
  const { moved, buffer, reported } = await afterMove({ ...at, isRepeated: true });
  expect([moved, buffer.fetchOffset, buffer.lastFetchedEpoch]).toEqual([true, 15, -1]);
  expect(reported).toMatchObject([['warn', 'log_cut_short', { position: 15, offset: 15 }]]);
  expect(buffer.take({ maxRecords: 1, maxBytes: 1 })).toBeUndefined();
});

test('adjusts the position of an added partition', async () => {
  const { moved, buffer } = await afterMove({ group: 'g', position: 3, range: [10, 20], partition: 3 });
  expect([moved, buffer.fetchOffset]).toEqual([true, 10]);
});

test('keeps the position of a partition without a leader', async () => {
  const { reported, moved, buffer } = await afterMove({ group: 'g', position: 3 });
  expect([moved, buffer.fetchOffset, reported]).toEqual([false, 3, []]);
});

interface Case {
  readonly group?: string;
  readonly position: number;
  /** Start offset and end offset. Undefined if the partition has no leader. */
  readonly range?: readonly [number, number];
  readonly leaderEpoch?: number;
  readonly upToEpoch?: number;
  readonly isRepeated?: boolean;
  readonly partition?: number;
}

async function afterMove(of: Case) {
  const { group, position, range, leaderEpoch, upToEpoch, isRepeated = false, partition = 0 } = of;
  const reported: [string, string, Fields | undefined][] = [];
  const logger = {
    info: (event: string, fields?: Fields) => void reported.push(['info', event, fields]),
    warn: (event: string, fields?: Fields) => void reported.push(['warn', event, fields]),
    error: (event: string, _: unknown, fields?: Fields) => void reported.push(['error', event, fields]),
  };
  const unexpectedCall = async () => Promise.reject(new Error('unexpected call'));
  const catalog = {
    ...{
      limits: unexpectedCall,
      committed: unexpectedCall,
      actualPartitionCounts: unexpectedCall,
      evict: () => undefined,
    },
    // The topic was created with one partition.
    ranges: async (_: string, partitions = 1) =>
      Array.from({ length: partitions }, () => range && { startOffset: range[0], endOffset: range[1] }),
  };
  const at = { topic: 't', clusterTopic: 'p-t', partition, position };
  const buffer = new PartitionBuffer(at, {
    filled: () => undefined,
    drained: () => undefined,
    released: () => undefined,
  });
  if (leaderEpoch !== undefined || upToEpoch !== undefined) buffer.seek(position, leaderEpoch, upToEpoch);
  const moved = await adjustPosition({ catalog, logger }, group, buffer, isRepeated);
  return { reported, moved, buffer };
}
