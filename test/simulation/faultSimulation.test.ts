/**
 * Simulates ingest, projector, and linker with faults. `npm run simulate:faults -- --seeds N` runs more seeds; QUESTLOG_SEED
 * changes the first seed.
 */
import { expect, test } from 'vitest';
import { simulateFaults } from './faults/faultSimulation.ts';
import { firstSeedFrom, simulateSeeds, total } from './simulateSeeds.ts';

const FAST = { first: 1, seeds: 30 };
/** Seeds in the tier of faults, which follow those of the fast tests, and for Stryker. */
const RUNS = { long: { first: 1 + FAST.seeds, seeds: 270 }, mutants: { first: 1, seeds: 20 } };
const { first, seeds } = RUNS[process.env['QUESTLOG_TEST_RUNS'] as keyof typeof RUNS] ?? FAST;
/** Time limit. A run takes seconds on an idle CPU, but other tests run too. */
const WITHIN_MS = 600_000;

test('keeps every acknowledged event once, counted, and linked, with faults between any two awaits', {
  timeout: WITHIN_MS,
}, async () => {
  const { failed, outcomes } = await simulateSeeds(
    simulateFaults,
    firstSeedFrom(process.env, first),
    seeds,
    3,
  );
  expect(failed).toEqual([]);
  // A run without acknowledged events would prove nothing.
  expect(total(outcomes, ({ acknowledged }) => acknowledged)).toBeGreaterThan(5 * seeds);
  expect(total(outcomes, ({ links }) => links)).toBeGreaterThan(seeds);
  expect(total(outcomes, ({ faults }) => faults)).toBeGreaterThan(5 * seeds);
  // One of eight seeds runs on a cluster of ClickHouse. Without a cluster, there are no faults of nodes.
  expect(total(outcomes, ({ nodeFaults }) => nodeFaults)).toBeGreaterThan(seeds / 8);
});

test('gives the same run for the same seed', async () => {
  const traceOf = async (seed: number): Promise<string[]> => {
    const steps: string[] = [];
    await simulateFaults(seed, (step) => void steps.push(step));
    return steps;
  };
  const [first, second, other] = [await traceOf(7), await traceOf(7), await traceOf(8)];
  expect(second).toEqual(first);
  expect(other).not.toEqual(first);
});

test.each([
  ['a block waited because the clock was set back by minutes', 12],
  ['a late insert with the token of a single attempt duplicated rows', 494],
  ['a linker committed lost records, and failed at each start', 1681],
  ['an insert that failed and took effect after the repair of a truncation was counted', 45],
  ['a projector without its partition wrote counts of lost records', 5124],
  [
    'events of a report that was filed again after a truncation were dropped as duplicates of the lost report',
    522,
  ],
])('%s', async (_, seed) => {
  expect((await simulateFaults(seed)).findings).toEqual([]);
});
