import { expect, test } from 'vitest';
import { ratesBetween } from './rates.ts';

type Traffic = Parameters<typeof ratesBetween>[0];

const traffic = (atMs: number, of: Partial<Traffic>, durations: readonly number[] = []): Traffic => ({
  servesGames: true,
  ...{ events: 0, requests: 0, rejected: 0, errors: 0, deadLetters: 0, memoryBytes: 0 },
  at: new Date(atMs).toISOString(),
  durations: durations.map((requests, i) => ({ atMostSeconds: [0.1, 0.5][i] ?? null, requests })),
  ...of,
});

test('computes rates per second, and counts the whole value of a counter that was reset', () => {
  const before = traffic(1_000, { events: 100, requests: 26, rejected: 2, errors: 4 });
  const after = traffic(3_000, { events: 200, requests: 52, rejected: 4, errors: 2 });
  expect(ratesBetween(before, after)).toEqual({
    ...{ at: after.at, events: 50, requests: 13, rejected: 1, errors: 1, p50Ms: null, p99Ms: null },
  });
});

// The second answer has 10 more requests up to 0.1 s, 10 more from 0.1 s to 0.5 s, and 5 more above 0.5 s. The expected results
// of PromQL were computed by hand.
test('computes quantiles as PromQL does', () => {
  const { p50Ms, p99Ms } = ratesBetween(traffic(0, {}, [5, 5, 5]), traffic(1_000, {}, [15, 25, 30]));
  expect(p50Ms).toBeCloseTo(200, 10);
  expect(p99Ms).toBeCloseTo(500, 10);
  const fast = ratesBetween(traffic(0, {}, [5, 5, 5]), traffic(1_000, {}, [105, 105, 105]));
  expect(fast).toMatchObject({ p50Ms: 50, p99Ms: 99 });
});
