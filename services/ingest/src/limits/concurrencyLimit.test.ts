import { expect, test } from 'vitest';
import { type AcquirePermit, limitConcurrency } from './fairSharing.ts';

function aLimit(max: number, maxPerProject = max) {
  let inUse = 0;
  const gauge = { set: (value: number) => (inUse = value) };
  return { acquire: limitConcurrency('slots', max, gauge, { maxPerProject }), inUse: () => inUse };
}

function takeAll(acquire: AcquirePermit, tenantId: string, projectId = tenantId): number {
  let count = 0;
  try {
    for (;;) {
      acquire({ tenantId, projectId });
      count += 1;
    }
  } catch (error) {
    expect(error).toMatchObject({ name: 'Unavailable', message: 'too many slots at once' });
    return count;
  }
}

test('a tenant gets half of the permits for all its projects, and others share the rest', () => {
  const { acquire, inUse } = aLimit(16, 5);
  expect([takeAll(acquire, 'one', 'first'), takeAll(acquire, 'one', 'second')]).toEqual([5, 3]);
  const others = ['two', 'three', 'four', 'five', 'six'].map((tenantId) => takeAll(acquire, tenantId));
  expect([others, inUse()]).toEqual([[4, 2, 1, 1, 0], 16]);
});

test('a released permit is available to a tenant below its limit', () => {
  const { acquire, inUse } = aLimit(2);
  const leave = acquire({ tenantId: 'one', projectId: 'p' });
  expect([takeAll(acquire, 'one'), takeAll(acquire, 'other'), takeAll(acquire, 'third')]).toEqual([0, 1, 0]);
  leave();
  leave();
  expect(inUse()).toBe(1);
  expect(takeAll(acquire, 'third')).toBe(1);
});
