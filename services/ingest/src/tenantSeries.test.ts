import { expect, test } from 'vitest';
import { OTHER_TENANTS, TenantSeries } from './tenantSeries.ts';

test('a thousand tenants have as many series as the limit, and no count is lost or decreases', () => {
  const series = new TenantSeries(3);
  let before: ReadonlyMap<string, number> = new Map();
  let counted = 0;
  for (let round = 1; round <= 5; round++) {
    for (let tenant = 0; tenant < 1000; tenant++) {
      // In each round, other tenants have the highest counts.
      const count = 1 + (tenant % 7) + (tenant % (10 * round) === 0 ? 1000 * round : 0);
      series.add(`tenant-${tenant}`, count);
      counted += count;
    }
    const values = series.collect();
    expect(values.size).toBe(4);
    for (const [tenant, value] of values) expect(value).toBeGreaterThanOrEqual(before.get(tenant) ?? 0);
    before = values;
  }
  const isShown = (tenant: string) => tenant !== OTHER_TENANTS;
  expect([...before.keys()].filter(isShown)).toHaveLength(3);
  expect(before.get(OTHER_TENANTS)).toBeLessThan(counted);
});

test('the tenants with the highest counts have their own series', () => {
  const series = new TenantSeries(2);
  for (const [tenant, count] of [
    ['small', 1],
    ['large', 100],
    ['medium', 10],
  ] as const)
    series.add(tenant, count);
  expect(Object.fromEntries(series.collect())).toEqual({ large: 100, medium: 10, [OTHER_TENANTS]: 1 });
  series.add('small', 500);
  expect(Object.fromEntries(series.collect())).toEqual({ small: 500, large: 100, [OTHER_TENANTS]: 1 });
});
