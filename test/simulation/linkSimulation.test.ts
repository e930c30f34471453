/**
 * Compares the linker with a brute-force join. `npm run simulate:links -- --seeds N` runs more seeds; QUESTLOG_SEED changes the
 * first seed.
 */
import { expect, test } from 'vitest';
import { simulateLinks } from './linkSimulation.ts';
import { firstSeedFrom, simulateSeeds, total } from './simulateSeeds.ts';

/** Number of seeds by the kind of run, instead of the default 100. The tier of faults is `long`. */
const RUNS = { long: 1_000, mutants: 20 };
const SEEDS = RUNS[process.env['QUESTLOG_TEST_RUNS'] as keyof typeof RUNS] ?? 100;
/** Time limit. A run takes ten seconds on an idle CPU, but other tests run too. */
const WITHIN_MS = 600_000;

test('creates the same links as the brute-force join through retries, retractions, and crashes', {
  timeout: WITHIN_MS,
}, async () => {
  const { failed, outcomes } = await simulateSeeds(simulateLinks, firstSeedFrom(process.env), SEEDS, 3);
  expect(failed).toEqual([]);
  // A run without links would prove nothing.
  expect(total(outcomes, ({ links }) => links)).toBeGreaterThan(SEEDS);
  expect(total(outcomes, ({ crashes }) => crashes)).toBeGreaterThan(SEEDS);
});
