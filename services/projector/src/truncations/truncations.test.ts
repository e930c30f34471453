/** Tests the query of truncations that all partitions of a process share. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import { expect, test } from 'vitest';
import { sharedTruncationQuery } from './truncations.ts';

test('returns only the truncations of the partition, in order, including those inserted before the call', async () => {
  const table = [cut('a', 0, '1'), cut('b', 0, '2'), cut('a', 1, '3'), cut('a', 0, '4')];
  const looks: (() => void)[] = [];
  const query = async () => {
    const seen = [...table];
    await new Promise<void>((answered) => looks.push(answered));
    return seen;
  };
  const truncationsOf = sharedTruncationQuery({ query } as unknown as Store, 'log');
  const idsOf = async (topic: string, partition: number) =>
    (await truncationsOf({ logId: 'log', topic, partition })).map(({ orphanId }) => orphanId);

  const early = Promise.all([idsOf('a', 0), idsOf('a', 1), idsOf('b', 0), idsOf('b', 1)]);
  await expect.poll(() => looks).toHaveLength(1);
  table.push(cut('b', 1, '5'));
  const late = idsOf('b', 1);
  looks[0]?.();
  expect(await early).toEqual([['1', '4'], ['3'], ['2'], []]);
  await expect.poll(() => looks).toHaveLength(2);
  looks[1]?.();
  expect(await late).toEqual(['5']);
});

function cut(topic: string, partition: number, orphanId: string) {
  return { topic, partition, orphanId, offset: '7', endOffset: '9', lost: 'x', records: '2', repaired: 1 };
}
