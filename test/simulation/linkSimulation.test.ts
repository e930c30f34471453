/** The linker against the brute-force join. `npm run simulate:links -- --seeds N` runs any number; QUESTLOG_SEED begins elsewhere. */
import { expect, test } from 'vitest';
import { simulateLinks } from './linkSimulation.ts';
import { firstSeedFrom, simulateSeeds, total } from './simulateSeeds.ts';

/** Five times as many in the tier of faults. */
const RUNS = { long: 1_000, mutants: 20 };
const SEEDS = RUNS[process.env['QUESTLOG_TEST_RUNS'] as keyof typeof RUNS] ?? 200;
/** Ten seconds on an idle CPU; tests run beside others. */
const WITHIN_MS = 600_000;

test('links equal the brute-force join through repeats, retractions and crashes: none twice, none missing', {
  timeout: WITHIN_MS,
}, async () => {
  const { failed, outcomes } = await simulateSeeds(simulateLinks, firstSeedFrom(process.env), SEEDS, 3);
  expect(failed).toEqual([]);
  // A run in which nothing happens would prove nothing.
  expect(total(outcomes, ({ links }) => links)).toBeGreaterThan(SEEDS);
  expect(total(outcomes, ({ crashes }) => crashes)).toBeGreaterThan(SEEDS);
});
