import { expect, test } from 'vitest';
import { Places } from './places.ts';

function takeAll(places: Places, tenantId: string, projectId = tenantId): number {
  let count = 0;
  while (places.take({ tenantId, projectId }) !== undefined) count += 1;
  return count;
}

test('a tenant has half of the places, whatever its projects, and the others share what it leaves', () => {
  const places = new Places(16, 5);
  expect([takeAll(places, 'one', 'first'), takeAll(places, 'one', 'second')]).toEqual([5, 3]);
  const others = ['two', 'three', 'four', 'five', 'six'].map((tenantId) => takeAll(places, tenantId));
  expect([others, places.taken]).toEqual([[4, 2, 1, 1, 0], 16]);
});

test('a place that is given back is there for whoever has fewer than are free', () => {
  const places = new Places(2);
  const leave = places.take({ tenantId: 'one', projectId: 'p' });
  expect([takeAll(places, 'one'), takeAll(places, 'other'), takeAll(places, 'third')]).toEqual([0, 1, 0]);
  leave?.();
  leave?.();
  expect(places.taken).toBe(1);
  expect(takeAll(places, 'third')).toBe(1);
});
