/** `npm run test:faults`: runs the rows of the campaign, and appends a line for each run to the result file. */
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { clientsOf } from '../../stack/stackClients.ts';
import { PAGE, reliabilityPage } from './reliabilityPage.ts';
import { addResult, argumentsOf, hasFailed, type Result, readResults, surroundings } from './results.ts';
import { Lacking, type OwnEngines, type Row } from './row.ts';
import { ROWS, rowNamed, shortRuns, together } from './rows.ts';
import { runInOwnProcess } from './runner/ownProcessRun.ts';
import { SharedStack } from './runner/sharedStack.ts';

const USAGE = `usage: npm run test:faults -- [--list] [--row NAME[,NAME…]] [--runs N] [--seed N] [--short] [--together] [--missing [--commit COMMIT]]
  --list     names the rows
  --row      these alone; with --short one after the other on one deployment
  --runs     so many of each, instead of as many as the row asks for
  --seed     repeats a run: its plan, not the machine's pace
  --short    the short form
  --together rows that leave nothing behind share deployments, and each deployment has one verdict
  --missing  what a commit (this one, unless one is given) lacks of its good runs`;

/** Time limit of a run, in addition to the fault's duration. Most runs take about one minute, two on a busy machine. */
const RUN_WITHIN_MS = 600_000;

interface Asked {
  readonly rows: readonly Row[];
  readonly isShort: boolean;
}

const { values } = parseArgs({
  options: {
    list: { type: 'boolean' },
    row: { type: 'string' },
    runs: { type: 'string' },
    seed: { type: 'string' },
    short: { type: 'boolean' },
    together: { type: 'boolean' },
    missing: { type: 'boolean' },
    commit: { type: 'string' },
    help: { type: 'boolean' },
  },
});

if (values.help) process.stdout.write(`${USAGE}\n`);
else if (values.list) {
  for (const { name, does, runs } of ROWS)
    process.stdout.write(`${name.padEnd(24)} ${String(runs).padStart(3)} runs  ${does}\n`);
} else await run();

async function run(): Promise<void> {
  const asked = whatToTry();
  process.stderr.write(`${asked.length} runs\n`);
  if (asked.length === 0) return;
  // Exits on signals, because the exit handlers stop the services.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(1));
  const stack = new SharedStack((line) => process.stderr.write(`${line}\n`));
  try {
    for (const [at, one] of asked.entries())
      await tryOne(await stack.whole(), one, `[${at + 1}/${asked.length}]`);
  } finally {
    await stack.stop();
  }
}

async function tryOne({ engines, stack }: OwnEngines, asked: Asked, at: string): Promise<void> {
  const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
  const names = asked.rows.map(({ name }) => name);
  const form = asked.isShort ? 'short' : 'long';
  const what = argumentsOf({ rows: names, form, seed });
  process.stderr.write(`${at} ${what}\n`);
  try {
    const version = await clientsOf({
      KAFKA_BROKERS: engines.brokers,
      CLICKHOUSE_URL: engines.clickhouseUrl,
    }).query('SELECT version()');
    const there = surroundings(version.trim());
    const outcome = await runInOwnProcess(
      { engines, dataDir: stack.dataDir, rows: names, seed, isShort: asked.isShort },
      asked.rows.reduce((sum, { lastsMs = 0 }) => sum + RUN_WITHIN_MS + lastsMs, 0),
      (line) => process.stderr.write(`  ${line}\n`),
    );
    const { findings, seconds, drainSeconds, events, links, refused } = outcome;
    const result: Result = {
      ...{ rows: names, form, seed, at: new Date().toISOString() },
      ...there,
      ...outcome,
    };
    addResult(result);
    writeFileSync(
      fileURLToPath(new URL(`../../../${PAGE}`, import.meta.url)),
      reliabilityPage(readResults()),
    );
    process.stderr.write(
      `  ${seconds} s, drained in ${drainSeconds} s: ${events} events, ${links} links, ${refused} answers of 503, ${findings.length} findings\n`,
    );
    if (findings.length === 0) return;
    process.exitCode = 1;
    for (const finding of findings) process.stderr.write(`  ${finding}\n`);
    process.stderr.write(`  repeat it: npm run test:faults -- ${what}\n`);
  } catch (error) {
    if (!(error instanceof Lacking)) throw error;
    process.stderr.write(`  skipped: ${error.message}\n`);
  }
}

/** Returns the runs, one entry per run. */
function whatToTry(): Asked[] {
  const named = values.row?.split(',').map(rowNamed);
  const times = values.runs === undefined ? undefined : Number(values.runs);
  if (values.short) {
    const chains = named === undefined ? shortRuns() : [named];
    return Array.from({ length: times ?? 1 }, () => chains.map((rows) => ({ rows, isShort: true }))).flat();
  }
  const left = (named ?? ROWS).flatMap((row) => {
    const count = values.seed === undefined ? (times ?? row.runs) : 1;
    const lacking = values.missing ? count - done(row) : count;
    return Array.from({ length: Math.max(0, lacking) }, (_, round) => ({ row, round }));
  });
  const rounds = [...Map.groupBy(left, ({ round }) => round).values()];
  const chains = values.together
    ? rounds.flatMap((those) => together(those.map(({ row }) => row)))
    : left.map(({ row }) => [row]);
  return chains.map((rows) => ({ rows, isShort: false }));
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
