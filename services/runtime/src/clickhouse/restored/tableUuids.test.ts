import { expect, onTestFinished, test, vi } from 'vitest';
import { Unavailable } from '../../process/errors.ts';
import type { Store } from '../store.ts';
import { cachedTableUuids, coalescedTableUuids } from './tableUuids.ts';

test('frequent requests for tables’ UUIDs share a query for a while, and failures are not cached', async () => {
  const now = vi.spyOn(performance, 'now').mockReturnValue(0);
  onTestFinished(() => now.mockRestore());
  const answers = [
    () => Promise.reject(new Unavailable('away')),
    async () => [
      { name: 'a', uuid: '1' },
      { name: 'b', uuid: '2' },
    ],
    async () => [{ name: 'a', uuid: '3' }],
  ];
  const query = (async () => await answers.shift()?.()) as unknown as Store['query'];
  const uuidOf = cachedTableUuids({ query }, 5_000);
  await expect(uuidOf('a')).rejects.toThrow('away');
  expect(await Promise.all(['a', 'b'].map(uuidOf))).toEqual(['1', '2']);
  now.mockReturnValue(5_000);
  expect(await uuidOf('a')).toBe('1');
  now.mockReturnValue(5_001);
  expect(await uuidOf('a')).toBe('3');
  await expect(uuidOf('b')).rejects.toThrow('there is no table b');
});

test('concurrent requests for tables share one query that starts after the requests', async () => {
  const looks: PromiseWithResolvers<unknown[]>[] = [];
  const query = (() => {
    looks.push(Promise.withResolvers());
    return looks.at(-1)?.promise;
  }) as unknown as Store['query'];
  const uuidOf = coalescedTableUuids({ query });
  const early = Promise.all(['a', 'b'].map(uuidOf));
  await expect.poll(() => looks).toHaveLength(1);
  const late = ['a', 'a', 'b'].map(uuidOf);
  looks[0]?.resolve([
    { name: 'a', uuid: '1' },
    { name: 'b', uuid: '2' },
  ]);
  expect(await early).toEqual(['1', '2']);
  await expect.poll(() => looks).toHaveLength(2);
  looks[1]?.resolve([{ name: 'a', uuid: '3' }]);
  expect(await Promise.all(late.slice(0, 2))).toEqual(['3', '3']);
  await expect(late[2]).rejects.toThrow('there is no table b');
});
