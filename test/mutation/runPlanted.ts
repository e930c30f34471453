/**
 * Plants each bug of `plantedBugs.ts` in a copy of the sources and runs the bug's tests there. Fails if all tests of a bug
 * pass, if a test fails without a bug, or if the text of a bug is no longer in the product.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { copiedTree } from './copiedTree.ts';
import { keepResults, type PlantedResult } from './mutationResults.ts';
import { PLANTED_BUGS, type PlantedBug } from './plantedBugs.ts';

/** Maximum time of one run, because a bug can make a test hang. A run that does not end proves nothing. */
const RUN_LIMIT_MS = 300_000;

/** @param wanted parts of the names of bugs; empty to plant all bugs. */
export function runPlanted(wanted: readonly string[]): void {
  const bugs = PLANTED_BUGS.filter(
    ({ name }) => wanted.length === 0 || wanted.some((part) => name.includes(part)),
  );
  if (bugs.length === 0) throw new Error(`no planted bug is named ${wanted.join(', ')}`);
  const copy = copiedTree();
  try {
    const sound = testedIn(copy, [...new Set(bugs.flatMap(({ tests }) => tests))], { bail: false });
    if (sound.red.length > 0) throw new Error(`tests fail without a bug: ${sound.red.join('\n')}`);
    const runnable = bugs.filter(({ name, tests }) => {
      const missing = tests.filter((path) => !sound.green.has(path));
      if (missing.length > 0) say(`${name}: not planted, because ${missing.join(', ')} cannot run here`);
      return missing.length === 0;
    });
    const results = runnable.map((bug) => planted(copy, bug));
    for (const line of tableOf(results)) say(line);
    const caught = results.flatMap(({ caughtBy, ...of }) =>
      caughtBy === undefined ? [] : [{ ...of, caughtBy }],
    );
    keepResults('planted', caught);
    for (const { name, caughtBy } of results) if (caughtBy === undefined) say(`${name}: survived`);
    if (caught.length < results.length) process.exitCode = 1;
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

function planted(copy: string, { name, lost, file, text, by, tests }: PlantedBug): Planted {
  const path = join(copy, file);
  const source = readFileSync(path, 'utf8');
  if (source.split(text).length !== 2)
    throw new Error(`${name}: the text of the bug must occur exactly once in ${file}`);
  const startedAtMs = Date.now();
  writeFileSync(
    path,
    source.replace(text, () => by),
  );
  const { red } = testedIn(copy, tests, { bail: true });
  writeFileSync(path, source);
  const seconds = Math.round((Date.now() - startedAtMs) / 100) / 10;
  return { name, lost, file, caughtBy: red[0], seconds };
}

/** Result of a planted bug. `caughtBy` is undefined if no test failed. */
type Planted = Omit<PlantedResult, 'caughtBy'> & { readonly caughtBy: string | undefined };

interface Tested {
  /** Files with at least one passed test and no failed test. */
  readonly green: ReadonlySet<string>;
  /** Failed tests, each with its file. */
  readonly red: readonly string[];
}

/** The used part of vitest's JSON report. */
interface Report {
  readonly testResults: readonly {
    readonly name: string;
    readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[];
  }[];
}

/** Runs the tests in the copy. A file that does not load is neither in `green` nor in `red`. */
function testedIn(copy: string, tests: readonly string[], { bail }: { bail: boolean }): Tested {
  const report = join(copy, '.data/report.json');
  rmSync(report, { force: true });
  const has = (part: string): boolean => tests.some((path) => path.includes(part));
  const projects = [
    ...['fast', 'engines'],
    ...(has('.kafka.') ? ['kafka'] : []),
    // `vitest.config.ts` has this file in the tier of faults.
    ...(has('/lostOffsets.') ? ['faults'] : []),
  ];
  spawnSync(
    process.execPath,
    [
      ...['node_modules/vitest/vitest.mjs', 'run', '--config', 'test/vitest.config.ts', '--root', '.'],
      ...projects.flatMap((project) => ['--project', project]),
      ...(bail ? ['--bail=1'] : []),
      ...tests,
    ],
    {
      cwd: copy,
      env: { ...process.env, QUESTLOG_TEST_REPORT: report, QUESTLOG_TEST_RUNS: 'mutants' },
      stdio: 'ignore',
      timeout: RUN_LIMIT_MS,
    },
  );
  if (!existsSync(report)) throw new Error(`vitest wrote no report for ${tests.join(', ')}`);
  const { testResults }: Report = JSON.parse(readFileSync(report, 'utf8'));
  const files = testResults.map(({ name, assertionResults }) => ({
    path: name.slice(copy.length + 1),
    of: (status: string) => assertionResults.filter((one) => one.status === status),
  }));
  return {
    green: new Set(
      files.filter(({ of }) => of('failed').length === 0 && of('passed').length > 0).map(({ path }) => path),
    ),
    red: files.flatMap(({ path, of }) => of('failed').map(({ fullName }) => `${path}: ${fullName}`)),
  };
}

function tableOf(results: readonly Planted[]): string[] {
  const rows = results.map(({ name, caughtBy = 'NOTHING', seconds }) => [
    name,
    `${seconds.toFixed(1)} s`,
    caughtBy,
  ]);
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => (row[column] ?? '').length)));
  return rows.map((row) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  '));
}

export function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
