/** A position outside of the log is moved into it, and what a group has lost by that is an error, of a tail no more than news. */
import { expect, test } from 'vitest';
import type { Fields } from '../../../process/logger.ts';
import { adjustPosition } from './adjustPosition.ts';
import { PartitionBuffer } from './partitionBuffer.ts';

test('retention that passes a group is told as an error, with what it has lost', async () => {
  const { told, moved, buffer } = await afterMove({ group: 'g', position: 3, range: [10, 20] });
  expect(moved).toBe(true);
  expect(buffer.take({ maxRecords: 1, maxBytes: 1 })).toEqual({
    records: [],
    nextOffset: 10,
    isAfterExpired: true,
  });
  expect(told).toEqual([
    ['error', 'log_removed_unprocessed', { group: 'g', topic: 't', partition: 0, offset: 3, start: 10 }],
  ]);
});

test('retention that passes a tail is no more than news', async () => {
  const { told, moved, buffer } = await afterMove({ position: 3, range: [10, 20] });
  expect(moved).toBe(true);
  expect(buffer.fetchOffset).toBe(10);
  expect(told).toEqual([['info', 'log_removed_ahead', { topic: 't', partition: 0, offset: 3, start: 10 }]]);
});

test('a position behind the end is an error of a group, whose reader is told', async () => {
  const { told, moved, buffer } = await afterMove({
    group: 'g',
    position: 21,
    range: [10, 20],
    isAgain: true,
  });
  expect(moved).toBe(true);
  expect(() => buffer.take({ maxRecords: 1, maxBytes: 1 })).toThrow(
    't/0 was truncated at offset 20; it had been read up to 21',
  );
  const fields = { group: 'g', topic: 't', partition: 0, position: 21, offset: 20, leaderEpoch: -1 };
  expect(told).toEqual([['error', 'log_cut_short', fields]]);
});

test('a position behind the end is a warning of a tail, which is told too', async () => {
  const { told, buffer } = await afterMove({ position: 21, range: [10, 20], isAgain: true });
  expect(() => buffer.take({ maxRecords: 1, maxBytes: 1 })).toThrow('t/0 was truncated at offset 20');
  expect(told).toMatchObject([['warn', 'log_cut_short', { position: 21, offset: 20 }]]);
});

test('an offset in range is asked for again, and then only its leader epoch can be unknown', async () => {
  const at = { group: 'g', position: 15, range: [10, 20], leaderEpoch: 7 } as const;
  expect(await afterMove(at)).toMatchObject({ moved: false, told: [] });
  const { moved, buffer } = await afterMove({ ...at, isAgain: true });
  expect([moved, buffer.fetchOffset]).toEqual([true, 14]);
});

test('where only a bound of its leader epoch is known, an offset in range stays, and is asked for without it', async () => {
  const at = { group: 'g', position: 15, range: [10, 20], upToEpoch: 7 } as const;
  expect(await afterMove(at)).toMatchObject({ moved: false, told: [] });
  const { moved, buffer, told } = await afterMove({ ...at, isAgain: true });
  expect([moved, buffer.fetchOffset, buffer.lastFetchedEpoch]).toEqual([true, 15, -1]);
  expect(told).toMatchObject([['warn', 'log_cut_short', { position: 15, offset: 15 }]]);
  expect(buffer.take({ maxRecords: 1, maxBytes: 1 })).toBeUndefined();
});

test('a partition that somebody added is asked for too', async () => {
  const { moved, buffer } = await afterMove({ group: 'g', position: 3, range: [10, 20], partition: 3 });
  expect([moved, buffer.fetchOffset]).toEqual([true, 10]);
});

test('a partition that has lost its leader meanwhile stays where it is', async () => {
  const { told, moved, buffer } = await afterMove({ group: 'g', position: 3 });
  expect([moved, buffer.fetchOffset, told]).toEqual([false, 3, []]);
});

interface Case {
  readonly group?: string;
  readonly position: number;
  /** Oldest offset and end; none where nobody leads the partition. */
  readonly range?: readonly [number, number];
  readonly leaderEpoch?: number;
  readonly upToEpoch?: number;
  readonly isAgain?: boolean;
  readonly partition?: number;
}

async function afterMove(of: Case) {
  const { group, position, range, leaderEpoch, upToEpoch, isAgain = false, partition = 0 } = of;
  const told: [string, string, Fields | undefined][] = [];
  const logger = {
    info: (event: string, fields?: Fields) => void told.push(['info', event, fields]),
    warn: (event: string, fields?: Fields) => void told.push(['warn', event, fields]),
    error: (event: string, _: unknown, fields?: Fields) => void told.push(['error', event, fields]),
  };
  const nobody = async () => Promise.reject(new Error('not asked for'));
  const catalog = {
    ...{ limits: nobody, committed: nobody, actualPartitionCounts: nobody, evict: () => undefined },
    // The topic was made with one.
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
  const moved = await adjustPosition({ catalog, logger }, group, buffer, isAgain);
  return { told, moved, buffer };
}
