/**
 * Ingest, projector and linker with everything going wrong. `npm run simulate:faults -- --seeds N` runs any number;
 * QUESTLOG_SEED begins elsewhere.
 */
import { expect, test } from 'vitest';
import { simulateFaults } from './faults/faultSimulation.ts';
import { firstSeedFrom, simulateSeeds, total } from './simulateSeeds.ts';

/** Among the faults and for Stryker. */
const RUNS = { long: 300, mutants: 20 };
const SEEDS = RUNS[process.env['QUESTLOG_TEST_RUNS'] as keyof typeof RUNS] ?? 60;
/** Seconds on an idle CPU; tests run beside others. */
const WITHIN_MS = 600_000;

test('nothing acknowledged is lost, doubled, miscounted or linked wrongly, whatever fails between two awaits', {
  timeout: WITHIN_MS,
}, async () => {
  const { failed, outcomes } = await simulateSeeds(simulateFaults, firstSeedFrom(process.env), SEEDS, 3);
  expect(failed).toEqual([]);
  // A run in which nothing happens would prove nothing.
  expect(total(outcomes, ({ acknowledged }) => acknowledged)).toBeGreaterThan(5 * SEEDS);
  expect(total(outcomes, ({ links }) => links)).toBeGreaterThan(SEEDS);
  expect(total(outcomes, ({ faults }) => faults)).toBeGreaterThan(5 * SEEDS);
});

test('a seed does the same each time', async () => {
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
  ['a block waited for a clock that was set back by minutes', 12],
  ['an insert came late, under a token that only its attempt had used, and its rows were there twice', 494],
  ['a linker committed what a cut had taken away, and died of it at each start', 1681],
  ['a projector that had lost its partition wrote counts of records that a cut had taken away', 5124],
  ['events of a report that came again after a cut were dropped for those of the lost one', 522],
])('%s', async (_, seed) => {
  expect((await simulateFaults(seed)).findings).toEqual([]);
});
