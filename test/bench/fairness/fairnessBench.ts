/**
 * `npm run bench:fairness`: measures how much an overloading tenant delays another tenant, an ingest at ten times its capacity,
 * and the error of a rate limit that several ingests share. Starts and ends all processes.
 */
import { writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { messageOf } from '@questlog/runtime/process/errors';
import { benchEnding, factsOf, say, startBenchStack } from '../path/benchStack.ts';
import type { RunFacts } from '../path/pathFigures.ts';
import { rowsOf } from './attacks.ts';
import { type FairnessDeployment, openFairnessDeployment } from './fairnessDeployment.ts';
import type { FairnessResult, FairnessRow, Round } from './fairnessFigures.ts';
import { fairnessReport } from './fairnessReport.ts';
import { measureLimiter } from './measureLimiter.ts';
import { measureOverload } from './measureOverload.ts';
import { measureRound, victimLoad } from './measureRounds.ts';

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

async function measure(
  deployment: FairnessDeployment,
  { seconds, runs }: Pick<RunFacts, 'seconds' | 'runs'>,
): Promise<Omit<FairnessResult, 'run'>> {
  // Measured before a second ingest starts.
  const limiter = [await measureLimiter(deployment, 1, seconds)];
  const [own = '', other = ''] = await deployment.ingests(2);
  const tenant = await deployment.tenant();
  await deployment.fill(tenant, STORED_OF_THE_VICTIM);
  const elsewhere = await rowsOf(deployment, other);
  const rows: FairnessRow[] = [];
  for (const [i, { beside, victim, plan }] of (await rowsOf(deployment, own)).entries()) {
    const plans = { beside: plan, elsewhere: elsewhere[i]?.plan ?? plan };
    const load = victimLoad(deployment, tenant, victim, seconds);
    const rounds: Round[] = [];
    while (rounds.length < runs) {
      say(`${victim} during ${beside}, ${rounds.length + 1} of ${runs}`);
      rounds.push(await measureRound(load, plans));
    }
    rows.push({ beside, victim, rounds });
  }
  say('the overload');
  const overload = await measureOverload(deployment, seconds);
  for (const ingests of SEVERAL) limiter.push(await measureLimiter(deployment, ingests, seconds));
  return { rows, overload, limiter };
}
