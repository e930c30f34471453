/**
 * `npm run test:mutation [-- <folder or file> …]` lets Stryker change the decision code, one change (mutant) at a time, and
 * reports the changes that no test detects. Fails if the tests detect less than 90 % of a folder's mutants, or if a survivor
 * has no reason in `survivors.txt`. `--alone <folder> …` runs only the tests in the same folder. For a `core/` folder, this
 * takes a minute or two instead of an hour. `--last` evaluates the last run again after the survivors have their reasons.
 * `npm run test:mutation -- --planted [<part of a name> …]` plants the bugs of `plantedBugs.ts` instead.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isTest, projectFiles, ROOT } from '../tidy/projectFiles.ts';
import { keepResults, type MutantScore } from './mutationResults.ts';
import { runPlanted, say } from './runPlanted.ts';
import { SURVIVORS } from './survivors.ts';

const MIN_KILLED_PERCENT = 90;
const MUTATED =
  /^services\/(\w+\/src\/(.+\/)?core\/|runtime\/src\/(consumer\/|log\/(projection|truncation)\/|process\/boundedMap)|ingest\/src\/events\/(quotas|replayCache|replays|storeEvents)\.ts)/;
const HERE = fileURLToPath(new URL('.', import.meta.url));
const REPORT = `${ROOT}.data/mutation/report.json`;
/** Last results of each file in the folders of the last run. After a new test for one file, the other files need no new run. */
const JUDGED = `${ROOT}.data/mutation/judged.json`;

interface Mutant {
  readonly status: string;
  readonly mutatorName: string;
  readonly replacement?: string;
  readonly location: { readonly start: { readonly line: number } };
}

interface MutatedFile {
  readonly source: string;
  readonly mutants: readonly Mutant[];
}

interface Judged {
  readonly isAlone: boolean;
  readonly files: Readonly<Record<string, MutatedFile>>;
}

const [first, ...rest] = process.argv.slice(2);
if (first === '--planted') runPlanted(rest);
else if (first === '--last') judge();
else if (first === '--alone') mutate(rest, true);
else mutate(first === undefined ? [] : [first, ...rest], false);

/** @param isAlone true to run only the tests in the same folder. Tests of `core/` run in one process, because they do no IO. */
function mutate(folders: readonly string[], isAlone: boolean): void {
  const wanted = folders.map((path) => posix.normalize(path).replace(/\/$/, ''));
  if (isAlone && wanted.length === 0) throw new Error('--alone needs the folders or files to mutate');
  const files = mutatedFiles().filter(
    (path) => wanted.length === 0 || wanted.some((part) => `${path}/`.startsWith(`${part}/`)),
  );
  if (files.length === 0)
    throw new Error(`no file in ${wanted.join(', ')} is mutated; files must match ${MUTATED}`);
  if (!existsSync(`${HERE}node_modules`)) {
    execFileSync('npm', ['ci', '--ignore-scripts'], { cwd: HERE, stdio: 'inherit' });
  }
  const stryker = `${HERE}node_modules/@stryker-mutator/core/bin/stryker.js`;
  const { status } = spawnSync(
    process.execPath,
    [
      ...[stryker, 'run', `${HERE}stryker.json`, '--mutate', files.join(',')],
      ...(isAlone && files.every((path) => /\/(core|consumer)\//.test(path))
        ? ['--testRunner', 'inProcess']
        : []),
    ],
    { cwd: ROOT, stdio: 'inherit', env: { ...process.env, ...(isAlone && testsOf(files)) } },
  );
  if (status !== 0) {
    process.exitCode = 1;
    return;
  }
  // The report omits files without mutants.
  const unchanged = files.map((path) => [
    path,
    { source: readFileSync(`${ROOT}${path}`, 'utf8'), mutants: [] },
  ]);
  const { files: judged } = JSON.parse(readFileSync(REPORT, 'utf8'));
  keepJudged({ isAlone, files: { ...Object.fromEntries(unchanged), ...judged } });
  judge();
}

function mutatedFiles(): string[] {
  const isOurs = (path: string): boolean => !isTest(path) && !path.includes('/testing/');
  return projectFiles().filter((path) => MUTATED.test(path) && path.endsWith('.ts') && isOurs(path));
}

/** Stores the results, and keeps earlier results of unchanged files in the same folders. */
function keepJudged({ isAlone, files }: Judged): void {
  const names = new Set(Object.keys(files).map(scoreNameOf));
  const before: Judged = existsSync(JUDGED) ? JSON.parse(readFileSync(JUDGED, 'utf8')) : { isAlone, files };
  const others = Object.entries(before.isAlone === isAlone ? before.files : {}).filter(
    ([path, { source }]) =>
      names.has(scoreNameOf(path)) &&
      existsSync(`${ROOT}${path}`) &&
      readFileSync(`${ROOT}${path}`, 'utf8') === source,
  );
  writeFileSync(JUDGED, JSON.stringify({ isAlone, files: { ...Object.fromEntries(others), ...files } }));
}

function judge(): void {
  if (!existsSync(JUDGED)) throw new Error('--last: there is no earlier run');
  const { isAlone, files: mutated }: Judged = JSON.parse(readFileSync(JUDGED, 'utf8'));
  const partly = new Set(
    mutatedFiles()
      .filter((path) => mutated[path] === undefined)
      .map(scoreNameOf),
  );
  const scores = reportScores(mutated);
  // Keeps no scores of a failed run, because the evidence page states that each survivor has a reason.
  if (process.exitCode === 1) return;
  keepResults(
    'scores',
    scores.filter(({ name }) => !partly.has(name)).map((score) => ({ ...score, isAlone })),
  );
}

/** Returns the variables that select the tests. The tests of other `core/` folders in a service also test the service's own `core/`. */
function testsOf(files: readonly string[]): Record<string, string> {
  const folders = [...new Set(files.map((path) => posix.dirname(path)))];
  const services = folders
    .filter((folder) => folder.includes('/core'))
    .map((folder) => folder.replace(/\/core.*/, ''));
  const tests = projectFiles()
    .filter(isTest)
    .filter(
      (path) =>
        folders.some((folder) => path.startsWith(`${folder}/`)) ||
        (path.includes('/core/') && services.some((folder) => path.startsWith(`${folder}/`))),
    );
  return { QUESTLOG_TEST_RUNS: 'mutants', QUESTLOG_MUTANT_TESTS: tests.join(',') };
}

function reportScores(mutated: Readonly<Record<string, MutatedFile>>): MutantScore[] {
  const byName = Map.groupBy(Object.entries(mutated), ([path]) => scoreNameOf(path));
  const scores = [...byName].map(([name, files]) =>
    scoreOf(
      name,
      files.map(([, file]) => file),
    ),
  );
  for (const score of scores)
    say(`${score.name}: ${score.killed} of ${score.all} mutants killed, ${percentOf(score).toFixed(1)} %`);
  const found = Object.entries(mutated).flatMap(([path, file]) => survivorsOf(path, file));
  const wrong = [
    ...found.filter(({ listed }) => listed === undefined).map(({ text }) => `${text}: survived`),
    ...SURVIVORS.filter(
      (one) => mutated[one.file] !== undefined && !found.some(({ listed }) => listed === one),
    ).map(({ file, line }) => `${file}: "${line}": is killed; remove it from survivors.txt`),
    ...scores
      .filter((score) => percentOf(score) < MIN_KILLED_PERCENT)
      .map(({ name }) => `${name}: less than ${MIN_KILLED_PERCENT} %`),
  ];
  for (const one of wrong) say(one);
  if (wrong.length > 0) process.exitCode = 1;
  return scores;
}

/** Returns the folder for a file in `core/` or `consumer/`, and the path itself for any other file. */
function scoreNameOf(path: string): string {
  return /\/(core|consumer)\//.test(path) ? posix.dirname(path) : path;
}

function survivorsOf(path: string, { source, mutants }: MutatedFile) {
  const lines = source.split('\n');
  return mutants.filter(isSurvivor).map(({ location, mutatorName, replacement = '' }) => {
    const line = lines[location.start.line - 1] ?? '';
    const text = `${path}:${location.start.line}: ${mutatorName} to ${replacement.replaceAll(/\s+/g, ' ').slice(0, 80)}`;
    return { text, listed: SURVIVORS.find((one) => one.file === path && line.includes(one.line)) };
  });
}

function percentOf({ killed, all }: MutantScore): number {
  return all === 0 ? 100 : (100 * killed) / all;
}

function scoreOf(name: string, files: readonly MutatedFile[]): MutantScore {
  const mutants = files.flatMap((file) => file.mutants);
  const killed = mutants.filter(({ status }) => status === 'Killed' || status === 'Timeout').length;
  return { name, killed, all: killed + mutants.filter(isSurvivor).length };
}

function isSurvivor({ status }: Mutant): boolean {
  return status === 'Survived' || status === 'NoCoverage';
}
