/** `npm run test:faults`: runs the rows of the campaign, and appends a line for each run to the result file. */
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { clientsOf } from '../../stack/stackClients.ts';
import { PAGE, reliabilityPage } from './reliabilityPage.ts';
import { addResult, argumentsOf, hasFailed, type Result, readResults, surroundings } from './results.ts';
import { Lacking, type OwnEngines, type Row } from './row.ts';
import { deployments, ROWS, rowNamed, shortRuns } from './rows.ts';
import { runInOwnProcess } from './runner/ownProcessRun.ts';
import { SharedStack } from './runner/sharedStack.ts';
import type { CampaignRun, Outcome } from './tryRows.ts';

const USAGE = `usage: npm run test:faults -- [--list] [--row NAME[,NAME…]] [--runs N] [--seed N] [--short] [--missing [--commit COMMIT]]
  --list     names the rows
  --row      these alone; with --short one after the other on one deployment
  --runs     so many of each, instead of as many as the row asks for
  --seed     repeats a run: its plan, not the machine's pace
  --short    the short form
  --missing  what a commit (this one, unless one is given) lacks of its good runs`;

/** Time limit of a run, in addition to the fault's duration. Most runs take about one minute, two on a busy machine. */
const RUN_WITHIN_MS = 600_000;

const { values } = parseArgs({
  options: {
    list: { type: 'boolean' },
    row: { type: 'string' },
    runs: { type: 'string' },
    seed: { type: 'string' },
    short: { type: 'boolean' },
    missing: { type: 'boolean' },
    commit: { type: 'string' },
    help: { type: 'boolean' },
  },
});

const form = values.short ? 'short' : 'long';

if (values.help) process.stdout.write(`${USAGE}\n`);
else if (values.list) {
  for (const { name, does, runs } of ROWS)
    process.stdout.write(`${name.padEnd(24)} ${String(runs).padStart(3)} runs  ${does}\n`);
} else await run();

async function run(): Promise<void> {
  const asked = whatToTry();
  process.stderr.write(`${asked.flat().length} runs on ${asked.length} deployments\n`);
  if (asked.length === 0) return;
  // Exits on signals, because the exit handlers stop the services.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(1));
  const stack = new SharedStack((line) => process.stderr.write(`${line}\n`));
  try {
    for (const runs of asked) {
      // A failed run ends its deployment, so the other runs need a new deployment.
      for (let left = runs; left.length > 0; ) left = left.slice(await tryOn(await stack.whole(), left));
    }
  } finally {
    await stack.stop();
  }
}

/** Tries runs on a new deployment. @returns the number of runs that have a result or cannot run on this machine */
async function tryOn({ engines, stack }: OwnEngines, runs: readonly CampaignRun[]): Promise<number> {
  const version = await clientsOf({
    KAFKA_BROKERS: engines.brokers,
    CLICKHOUSE_URL: engines.clickhouseUrl,
  }).query('SELECT version()');
  const there = surroundings(version.trim());
  const longest = Math.max(
    ...runs.map(({ rows }) => rows.reduce((sum, { lastsMs = 0 }) => sum + RUN_WITHIN_MS + lastsMs, 0)),
  );
  const named = runs.map(({ rows, seed }) => ({ rows: rows.map(({ name }) => name), seed }));
  const print = (line: string) => process.stderr.write(`  ${line}\n`);
  const begin = (at: number): void => {
    const next = named[at];
    if (next !== undefined) process.stderr.write(`${argumentsOf({ ...next, form })}\n`);
  };
  let tried = 0;
  begin(tried);
  const report = (outcome: Outcome): void => {
    const { rows = [], seed = 0 } = named[tried] ?? {};
    record({ ...{ rows, form, seed, at: new Date().toISOString() }, ...there, ...outcome });
    tried += 1;
    if (outcome.findings.length === 0) begin(tried);
  };
  try {
    const { dataDir } = stack;
    const toTry = { engines, dataDir, runs: named, isShort: form === 'short' };
    return await runInOwnProcess(toTry, longest, { say: print, report });
  } catch (error) {
    if (!(error instanceof Lacking)) throw error;
    print(`skipped: ${error.message}`);
    return runs.length;
  }
}

function record(result: Result): void {
  const { findings, seconds, drainSeconds, events, links, refused } = result;
  addResult(result);
  writeFileSync(fileURLToPath(new URL(`../../../${PAGE}`, import.meta.url)), reliabilityPage(readResults()));
  process.stderr.write(
    `  ${seconds} s, drained in ${drainSeconds} s: ${events} events, ${links} links, ${refused} answers of 503, ${findings.length} findings\n`,
  );
  if (findings.length === 0) return;
  process.exitCode = 1;
  for (const finding of findings) process.stderr.write(`  ${finding}\n`);
  process.stderr.write(`  repeat it: npm run test:faults -- ${argumentsOf(result)}\n`);
}

/** Returns the runs of each deployment. */
function whatToTry(): CampaignRun[][] {
  const seed = () => Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
  const named = values.row?.split(',').map(rowNamed);
  const times = values.runs === undefined ? undefined : Number(values.runs);
  if (values.short) {
    const chains = named === undefined ? shortRuns() : [named];
    return Array.from({ length: times ?? 1 }, () => chains.map((rows) => [{ rows, seed: seed() }])).flat();
  }
  const left = (named ?? ROWS).flatMap((row) => {
    const count = values.seed === undefined ? (times ?? row.runs) : 1;
    const lacking = values.missing ? count - done(row) : count;
    return Array.from({ length: Math.max(0, lacking) }, (_, round) => ({ row, round }));
  });
  const inRounds = left.toSorted((one, other) => one.round - other.round).map(({ row }) => row);
  return deployments(inRounds).map((rows) => rows.map((row) => ({ rows: [row], seed: seed() })));
}

/** Returns the number of passed runs; a failed run is repeated. */
function done({ name }: Row): number {
  const commit = values.commit ?? surroundings('').commit;
  return readResults().filter(
    (one) =>
      one.rows.includes(name) &&
      !hasFailed(name, one) &&
      one.form === 'long' &&
      !one.isUncommitted &&
      commit.startsWith(one.commit),
  ).length;
}
