/**
 * Simulates ingest, projector, and linker with faults. `npm run simulate:faults -- --seeds N` runs more seeds; QUESTLOG_SEED
 * changes the first seed.
 */
import { expect, test } from 'vitest';
import { simulateFaults } from './faults/faultSimulation.ts';
import { firstSeedFrom, simulateSeeds, total } from './simulateSeeds.ts';

/** Numbers of seeds in the tier of faults and for Stryker. */
const RUNS = { long: 300, mutants: 20 };
const SEEDS = RUNS[process.env['QUESTLOG_TEST_RUNS'] as keyof typeof RUNS] ?? 30;
/** Time limit. A run takes seconds on an idle CPU, but other tests run too. */
const WITHIN_MS = 600_000;

test('keeps every acknowledged event once, counted, and linked, with faults between any two awaits', {
  timeout: WITHIN_MS,
}, async () => {
  const { failed, outcomes } = await simulateSeeds(simulateFaults, firstSeedFrom(process.env), SEEDS, 3);
  expect(failed).toEqual([]);
  // A run without acknowledged events would prove nothing.
  expect(total(outcomes, ({ acknowledged }) => acknowledged)).toBeGreaterThan(5 * SEEDS);
  expect(total(outcomes, ({ links }) => links)).toBeGreaterThan(SEEDS);
  expect(total(outcomes, ({ faults }) => faults)).toBeGreaterThan(5 * SEEDS);
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
  ['a projector without its partition wrote counts of lost records', 5124],
  [
    'events of a report that was filed again after a truncation were dropped as duplicates of the lost report',
    522,
  ],
])('%s', async (_, seed) => {
  expect((await simulateFaults(seed)).findings).toEqual([]);
});
