/**
 * `npm run simulate:faults -- --seeds N [--first S] [--trace]`: simulates ingest, projector, and linker with faults. Prints the
 * command that repeats a failing seed; `--trace` prints its steps. `--plant 'name'` plants a bug first. `--planted` plants each
 * bug in turn, and prints the number of seeds until the bug was found. `--every 8` runs only the seeds 8, 16, and so on, which
 * have a cluster of ClickHouse.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { simulateSeeds, total } from '../simulateSeeds.ts';
import type { Outcome } from './faultSimulation.ts';
import { plant, SEEN } from './planted.ts';

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '3000' },
    first: { type: 'string', default: '1' },
    enough: { type: 'string', default: '10' },
    every: { type: 'string', default: '1' },
    trace: { type: 'boolean', default: false },
    jobs: { type: 'string', default: `${availableParallelism()}` },
    plant: { type: 'string' },
    planted: { type: 'boolean', default: false },
  },
});
/** Maximum printed findings of a run. */
const MAX_SAID = 5;
/**
 * Flags for many seeds: a larger space for new objects, because most objects of a run are garbage at its end, and no stack
 * traces, because a run creates many errors.
 */
const FOR_MANY_SEEDS = ['--min-semi-space-size=64', '--max-semi-space-size=64', '--stack-trace-limit=0'];
const say = (line: string): void => void process.stdout.write(`${line}\n`);

process.exitCode = (await chosenRun()) ? 0 : 1;

function chosenRun(): Promise<boolean> {
  if (values.planted) return runPlanted();
  return Number(values.jobs) > 1 && !values.trace ? runJobs(Number(values.jobs)) : runSeeds();
}

/** Runs one process per core, each with a part of the seeds. */
async function runJobs(jobs: number): Promise<boolean> {
  const startedAtMs = performance.now();
  const share = Math.ceil(Number(values.seeds) / jobs);
  const runs = Array.from({ length: jobs }, async (_, job) => {
    const first = Number(values.first) + job * share;
    const seeds = Math.min(share, Number(values.first) + Number(values.seeds) - first);
    const range = ['--seeds', `${seeds}`, '--first', `${first}`, '--every', values.every];
    const args = ['--jobs', '1', ...range, '--enough', values.enough];
    const run = [...FOR_MANY_SEEDS, fileURLToPath(import.meta.url), ...args];
    const child = spawn(process.execPath, run, { stdio: 'inherit' });
    const [code] = await once(child, 'exit');
    return code === 0;
  });
  const isWell = (await Promise.all(runs)).every(Boolean);
  say(`${values.seeds} seeds by ${jobs} processes: ${secondsSince(startedAtMs)} s`);
  return isWell;
}

function secondsSince(startedAtMs: number): string {
  return ((performance.now() - startedAtMs) / 1000).toFixed(1);
}

async function runSeeds(): Promise<boolean> {
  if (values.plant !== undefined) plant(values.plant);
  const { simulateFaults } = await import('./faultSimulation.ts');
  const simulate = async (number: number): Promise<Outcome> => {
    const seed = number * Number(values.every);
    const outcome = await simulateFaults(seed, values.trace ? say : undefined);
    if (outcome.findings.length > 0) say(`npm run simulate:faults -- --seeds 1 --first ${seed} --trace`);
    for (const finding of outcome.findings.slice(0, MAX_SAID)) say(`  ${finding}`);
    return outcome;
  };
  const startedAtMs = performance.now();
  const { failed, outcomes } = await simulateSeeds(
    simulate,
    Number(values.first),
    Number(values.seeds),
    Number(values.enough),
  );
  const said = (['acknowledged', 'links', 'faults', 'nodeFaults', 'clusters', 'steps'] as const).map(
    (what) => `${total(outcomes, (outcome) => outcome[what])} ${what}`,
  );
  say(
    `${outcomes.length} seeds from ${values.first}: ${said.join(', ')}, ${failed.length} failed, ${secondsSince(startedAtMs)} s`,
  );
  return failed.length === 0;
}

/** Plants each bug in a separate process. */
async function runPlanted(): Promise<boolean> {
  let isAllFound = true;
  for (const { name } of SEEN) {
    const range = ['--seeds', values.seeds, '--first', values.first, '--every', values.every];
    const args = ['--jobs', '1', ...range, '--enough', '1', '--plant', name];
    const told = toldBy([fileURLToPath(import.meta.url), ...args]);
    const seeds = /^(\d+) seeds .* 1 failed/m.exec(told)?.[1];
    isAllFound &&= seeds !== undefined;
    say(
      `${name}: ${seeds === undefined ? `not found within ${values.seeds} seeds` : `found by seed ${seeds}`}`,
    );
    for (const line of told
      .split('\n')
      .filter((text) => text.startsWith('  '))
      .slice(0, 1))
      say(`  ${line.trim()}`);
  }
  return isAllFound;
}

function toldBy(args: readonly string[]): string {
  try {
    return execFileSync(process.execPath, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  } catch (error) {
    // A failed process has found the bug.
    return error instanceof Error && 'stdout' in error ? String(error.stdout) : '';
  }
}
