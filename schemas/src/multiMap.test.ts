import { expect, test } from 'vitest';
import { MultiMap } from './multiMap.ts';

const [a, b, c] = [{ name: 'a' }, { name: 'b' }, { name: 'c' }];

test('returns the values of a key in insertion order, each once', () => {
  const map = new MultiMap<object>();
  for (const thing of [b, a, c, a]) map.add('k', thing);
  expect([...map.get('k')]).toEqual([b, a, c]);
  expect([...map.get('other')]).toEqual([]);
});

test('deleting a value keeps the other values of its key', () => {
  const map = new MultiMap<object>();
  map.add('k', a);
  map.delete('k', b);
  expect([...map.get('k')]).toEqual([a]);
  map.add('k', b);
  map.delete('k', a);
  expect([...map.get('k')]).toEqual([b]);
  map.delete('k', b);
  expect([...map.get('k')]).toEqual([]);
});
