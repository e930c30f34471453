/**
 * `npm run bench:fairness` measures what one tenant that takes too much costs another, the ingest at ten times what it takes,
 * and the error of a limit that several ingests share. Starts what it needs and ends it.
 */
import { writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { messageOf } from '@questlog/runtime/process/errors';
import { factsOf, startBenchStack } from '../path/benchStack.ts';
import type { NotMeasured } from '../path/pathFigures.ts';
import { type Beside, rowsOf } from './attacks.ts';
import { type FairnessResult, judge, type Pair, type PairRow } from './fairnessFigures.ts';
import { type FairnessHouse, openHouse, type Tenant } from './fairnessHouse.ts';
import { fairnessReport } from './fairnessReport.ts';
import { measureLimiter } from './measureLimiter.ts';
import { measureOverload } from './measureOverload.ts';
import { measurePair, victimLoad } from './measurePairs.ts';

const INTERRUPTED = 130;
const STORED_OF_THE_VICTIM = 1_000;

await using ending = new AsyncDisposableStack();
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void ending.disposeAsync().finally(() => process.exit(INTERRUPTED)));
}
await run().catch((error: unknown) => {
  process.stderr.write(`\nbench:fairness: ${messageOf(error)}\n`);
  process.exitCode = 1;
});

async function run(): Promise<void> {
  const { values } = parseArgs({
    options: {
      /** The length of each load. */
      seconds: { type: 'string', default: '10' },
      /** How often each pair is measured. */
      runs: { type: 'string', default: '3' },
      json: { type: 'string' },
      check: { type: 'boolean', default: false },
    },
  });
  const [seconds, runs] = [Number(values.seconds), Number(values.runs)];
  if (!(seconds > 0 && Number.isInteger(runs) && runs > 0))
    throw new Error('--seconds: a number above 0; --runs: a whole number above 0');
  const loadBefore = loadavg()[0] ?? 0;
  say('the broker starts');
  const stack = await startBenchStack(ending);
  say('the ingest and the projector start');
  const house = await openHouse(stack);
  const result = {
    run: factsOf(stack, { seconds, runs }, loadBefore),
    ...(await measure(house, seconds, runs)),
  };
  say('');
  process.stdout.write(`${fairnessReport(result)}\n`);
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(result, null, 2)}\n`);
  if (!values.check) return;
  const { failures, notJudged } = judge(result);
  for (const line of notJudged) process.stdout.write(`not judged: ${line}\n`);
  for (const line of failures) process.stderr.write(`bench:fairness: ${line}\n`);
  if (failures.length > 0) process.exitCode = 1;
}

/** What fails is told in its place, and the rest is measured. */
async function measure(
  house: FairnessHouse,
  seconds: number,
  runs: number,
): Promise<Omit<FairnessResult, 'run'>> {
  const victim = await house.tenant();
  await house.fill(victim, STORED_OF_THE_VICTIM);
  const rows: PairRow[] = [];
  for (const row of await rowsOf(house)) rows.push(await measureRow(house, victim, row, seconds, runs));
  say('the overload');
  const overload = await measureOverload(house, seconds).catch(absent);
  const limiter = await measureLimiter(house, seconds, say).catch(absent);
  return { rows, overload, limiter };
}

async function measureRow(
  house: FairnessHouse,
  tenant: Tenant,
  row: Beside,
  seconds: number,
  runs: number,
): Promise<PairRow> {
  const load = victimLoad(house, tenant, row.victim, seconds);
  const pairs: Pair[] = [];
  const of = { beside: row.beside, victim: row.victim, pairs };
  for (let i = 1; i <= runs; i++) {
    say(`${row.victim} beside ${row.beside}, ${i} of ${runs}`);
    try {
      pairs.push(await measurePair(house, load, row));
    } catch (error) {
      return { ...of, ...absent(error) };
    }
  }
  return of;
}

function absent(error: unknown): NotMeasured {
  return { absent: messageOf(error) };
}

/** One line: on a terminal the next one takes its place. */
function say(line: string): void {
  process.stderr.write(process.stderr.isTTY ? `\r\x1b[K${line}` : line && `bench: ${line}\n`);
}
