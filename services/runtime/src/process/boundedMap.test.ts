import { expect, test } from 'vitest';
import { BoundedMap } from './boundedMap.ts';

test('evicts the oldest entries when a new value exceeds the budget', () => {
  const map = new BoundedMap<string, string>(6, ({ length }) => length);
  map.set('a', 'xx');
  map.set('b', 'xx');
  map.set('c', 'xx');
  expect(map.touch('a')).toBe('xx');
  map.set('d', 'xxx');
  expect([...map.values()]).toEqual(['xx', 'xxx']);
  expect([map.has('a'), map.has('b'), map.has('c'), map.weight]).toEqual([true, false, false, 5]);
  map.set('a', 'x');
  expect(map.weight).toBe(4);
  map.set('e', 'xxxxxxx');
  expect(map.weight).toBe(0);
  expect([map.touch('e'), map.has('e')]).toEqual([undefined, false]);
});

test('counts entries by default, and evicts none at the budget', () => {
  const map = new BoundedMap<string, number>(2);
  for (const key of ['a', 'b', 'c']) map.set(key, 9);
  expect([...map.keys()]).toEqual(['b', 'c']);
});
