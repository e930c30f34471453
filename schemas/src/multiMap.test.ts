import { expect, test } from 'vitest';
import { MultiMap } from './multiMap.ts';

const [a, b, c] = [{ name: 'a' }, { name: 'b' }, { name: 'c' }];

test('things of a key come in the order in which they were added, each once', () => {
  const map = new MultiMap<object>();
  for (const thing of [b, a, c, a]) map.add('k', thing);
  expect([...map.get('k')]).toEqual([b, a, c]);
  expect([...map.get('other')]).toEqual([]);
});

test('what is deleted takes nothing else of its key with it', () => {
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
