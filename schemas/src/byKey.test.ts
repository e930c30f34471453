import { expect, test } from 'vitest';
import { ByKey } from './byKey.ts';

const [a, b, c] = [{ name: 'a' }, { name: 'b' }, { name: 'c' }];

test('things of a key come in the order in which they were added, each once', () => {
  const byKey = new ByKey<object>();
  for (const thing of [b, a, c, a]) byKey.add('k', thing);
  expect([...byKey.get('k')]).toEqual([b, a, c]);
  expect([...byKey.get('other')]).toEqual([]);
});

test('what is deleted takes nothing else of its key with it', () => {
  const byKey = new ByKey<object>();
  byKey.add('k', a);
  byKey.delete('k', b);
  expect([...byKey.get('k')]).toEqual([a]);
  byKey.add('k', b);
  byKey.delete('k', a);
  expect([...byKey.get('k')]).toEqual([b]);
  byKey.delete('k', b);
  expect([...byKey.get('k')]).toEqual([]);
});
