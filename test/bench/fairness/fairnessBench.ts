/**
 * `npm run bench:fairness`: measures how much an overloading tenant delays another tenant, an ingest at ten times its capacity,
 * and the error of a rate limit that several ingests share. Starts and ends all processes.
 */
import { writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { messageOf } from '@questlog/runtime/process/errors';
import { benchEnding, factsOf, say, startBenchStack } from '../path/benchStack.ts';
import type { NotMeasured } from '../path/pathFigures.ts';
import { type Beside, rowsOf } from './attacks.ts';
import { type FairnessDeployment, openFairnessDeployment, type Tenant } from './fairnessDeployment.ts';
import type { FairnessResult, FairnessRow, LimiterFigures, Round } from './fairnessFigures.ts';
import { fairnessReport } from './fairnessReport.ts';
import { measureLimiter } from './measureLimiter.ts';
import { measureOverload } from './measureOverload.ts';
import { measureRound, type Plans, victimLoad } from './measureRounds.ts';

const STORED_OF_THE_VICTIM = 1_000;
/** Numbers of ingests that share a limit. */
const SEVERAL = [2, 4];

await using ending = benchEnding();
await run().catch((error: unknown) => {
  process.stderr.write(`\nbench:fairness: ${messageOf(error)}\n`);
  process.exitCode = 1;
});

async function run(): Promise<void> {
  const { values } = parseArgs({
    options: {
      /** Seconds of each load. */
      seconds: { type: 'string', default: '7' },
      /** Measurements of each row. */
      runs: { type: 'string', default: '3' },
      json: { type: 'string' },
    },
  });
  const [seconds, runs] = [Number(values.seconds), Number(values.runs)];
  if (!(seconds > 0 && Number.isInteger(runs) && runs > 0))
    throw new Error('--seconds: a number above 0; --runs: a whole number above 0');
  const loadBefore = loadavg()[0] ?? 0;
  say('the broker starts');
  const stack = await startBenchStack(ending);
  say('the ingest and the projector start');
  const deployment = await openFairnessDeployment(stack);
  const result = {
    run: factsOf(stack, { seconds, runs }, loadBefore),
    ...(await measure(deployment, { seconds, runs })),
  };
  say('');
  process.stdout.write(`${fairnessReport(result)}\n`);
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(result, null, 2)}\n`);
}

/** Measures everything. A failure is reported in place of its figures. */
async function measure(
  deployment: FairnessDeployment,
  { seconds, runs }: { readonly seconds: number; readonly runs: number },
): Promise<Omit<FairnessResult, 'run'>> {
  // Measured before a second ingest starts.
  const one = await measureLimiter(deployment, 1, seconds).catch(absent);
  const [own = '', other = ''] = await deployment.ingests(2);
  const victim = await deployment.tenant();
  await deployment.fill(victim, STORED_OF_THE_VICTIM);
  const [beside, elsewhere] = [await rowsOf(deployment, own), await rowsOf(deployment, other)];
  const rows: FairnessRow[] = [];
  for (const [i, row] of beside.entries()) {
    const plans = { beside: row.plan, elsewhere: elsewhere[i]?.plan ?? row.plan };
    rows.push(await measureRow(deployment, victim, row, plans, { seconds, runs }));
  }
  say('the overload');
  const overload = await measureOverload(deployment, seconds).catch(absent);
  return { rows, overload, limiter: 'absent' in one ? one : await limiters(one).catch(absent) };

  async function limiters(first: LimiterFigures): Promise<LimiterFigures[]> {
    const all = [first];
    for (const ingests of SEVERAL) all.push(await measureLimiter(deployment, ingests, seconds));
    return all;
  }
}

async function measureRow(
  deployment: FairnessDeployment,
  tenant: Tenant,
  { beside, victim }: Beside,
  plans: Plans,
  { seconds, runs }: { readonly seconds: number; readonly runs: number },
): Promise<FairnessRow> {
  const load = victimLoad(deployment, tenant, victim, seconds);
  const rounds: Round[] = [];
  for (let i = 1; i <= runs; i++) {
    say(`${victim} during ${beside}, ${i} of ${runs}`);
    try {
      rounds.push(await measureRound(load, plans));
    } catch (error) {
      return { beside, victim, rounds, ...absent(error) };
    }
  }
  return { beside, victim, rounds };
}

function absent(error: unknown): NotMeasured {
  return { absent: messageOf(error) };
}
