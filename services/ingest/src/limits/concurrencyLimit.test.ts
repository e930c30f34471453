import { expect, test } from 'vitest';
import { ConcurrencyLimit } from './concurrencyLimit.ts';

function takeAll(places: ConcurrencyLimit, tenantId: string, projectId = tenantId): number {
  let count = 0;
  while (places.acquire({ tenantId, projectId }) !== undefined) count += 1;
  return count;
}

test('a tenant gets half of the permits for all its projects, and others share the rest', () => {
  const places = new ConcurrencyLimit(16, 5);
  expect([takeAll(places, 'one', 'first'), takeAll(places, 'one', 'second')]).toEqual([5, 3]);
  const others = ['two', 'three', 'four', 'five', 'six'].map((tenantId) => takeAll(places, tenantId));
  expect([others, places.inUse]).toEqual([[4, 2, 1, 1, 0], 16]);
});

test('a released permit is available to a tenant below its limit', () => {
  const places = new ConcurrencyLimit(2);
  const leave = places.acquire({ tenantId: 'one', projectId: 'p' });
  expect([takeAll(places, 'one'), takeAll(places, 'other'), takeAll(places, 'third')]).toEqual([0, 1, 0]);
  leave?.();
  leave?.();
  expect(places.inUse).toBe(1);
  expect(takeAll(places, 'third')).toBe(1);
});
