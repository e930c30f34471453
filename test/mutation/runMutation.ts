/**
 * `npm run test:mutation [-- <folder or file> …]` has Stryker change the decisions of the product one by one, and tells
 * which changes no test notices. Fails where a folder has under 85 % noticed, and on a survivor without a reason in
 * `survivors.ts`. With `--alone` before them folders must stand by their own tests, which for those of `core/` takes a minute
 * or two instead of an hour. `--last` judges the last run again, once its survivors have their reasons.
 * `npm run test:mutation -- --planted [<part of a name> …]` plants the bugs of `plantedBugs.ts` instead.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isTest, projectFiles, ROOT } from '../tidy/projectFiles.ts';
import { keepResults, type MutantScore } from './mutationResults.ts';
import { runPlanted, say } from './runPlanted.ts';
import { SURVIVORS } from './survivors/survivors.ts';

const LEAST_KILLED_PERCENT = 85;
const MUTATED =
  /^services\/(\w+\/src\/(.+\/)?core\/|runtime\/src\/consumer\/|ingest\/src\/events\/(quotas|replays|storeEvents)\.ts)/;
const HERE = fileURLToPath(new URL('.', import.meta.url));
const REPORT = `${ROOT}.data/mutation/report.json`;
/** The rooms of the last run, each file as it was judged last: who adds a test for one need not run the others again. */
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

/** @param isAlone by the tests of the files' own folders; those of `core/` in one process, which tests without IO bear. */
function mutate(folders: readonly string[], isAlone: boolean): void {
  const asked = folders.map((path) => posix.normalize(path).replace(/\/$/, ''));
  if (isAlone && asked.length === 0)
    throw new Error('--alone judges folders, and what is in them: name them');
  const files = mutatedFiles().filter(
    (path) => asked.length === 0 || asked.some((part) => `${path}/`.startsWith(`${part}/`)),
  );
  if (files.length === 0) throw new Error(`nothing of ${asked.join(', ')} is mutated: ${MUTATED}`);
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
  // The report leaves out files in which there is nothing to change.
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

/** Beside what was found of the other files of the same rooms, as they are now. */
function keepJudged({ isAlone, files }: Judged): void {
  const rooms = new Set(Object.keys(files).map(roomOf));
  const before: Judged = existsSync(JUDGED) ? JSON.parse(readFileSync(JUDGED, 'utf8')) : { isAlone, files };
  const others = Object.entries(before.isAlone === isAlone ? before.files : {}).filter(
    ([path, { source }]) =>
      rooms.has(roomOf(path)) &&
      existsSync(`${ROOT}${path}`) &&
      readFileSync(`${ROOT}${path}`, 'utf8') === source,
  );
  writeFileSync(JUDGED, JSON.stringify({ isAlone, files: { ...Object.fromEntries(others), ...files } }));
}

function judge(): void {
  if (!existsSync(JUDGED)) throw new Error('--last: there was no run in this folder yet');
  const { isAlone, files: mutated }: Judged = JSON.parse(readFileSync(JUDGED, 'utf8'));
  const partly = new Set(
    mutatedFiles()
      .filter((path) => mutated[path] === undefined)
      .map(roomOf),
  );
  const scores = tell(mutated);
  // The page says that each survivor has its reason.
  if (process.exitCode === 1) return;
  keepResults(
    'scores',
    scores.filter(({ name }) => !partly.has(name)).map((score) => ({ ...score, isAlone })),
  );
}

/** A `core/` of a whole service is tested by the others, too, which it serves. */
function testsOf(files: readonly string[]): Record<string, string> {
  const rooms = [...new Set(files.map((path) => posix.dirname(path)))];
  const served = rooms.filter((room) => room.includes('/core')).map((room) => room.replace(/\/core.*/, ''));
  const tests = projectFiles()
    .filter(isTest)
    .filter(
      (path) =>
        rooms.some((room) => path.startsWith(`${room}/`)) ||
        (path.includes('/core/') && served.some((folder) => path.startsWith(`${folder}/`))),
    );
  return { QUESTLOG_TEST_RUNS: 'mutants', QUESTLOG_MUTANT_TESTS: tests.join(',') };
}

function tell(mutated: Readonly<Record<string, MutatedFile>>): MutantScore[] {
  const rooms = Map.groupBy(Object.entries(mutated), ([path]) => roomOf(path));
  const scores = [...rooms].map(([room, inside]) =>
    scoreOf(
      room,
      inside.map(([, file]) => file),
    ),
  );
  for (const score of scores)
    say(`${score.name}: ${score.killed} of ${score.all} mutants killed, ${percentOf(score).toFixed(1)} %`);
  const found = Object.entries(mutated).flatMap(([path, file]) => survivorsOf(path, file));
  const wrong = [
    ...found.filter(({ listed }) => listed === undefined).map(({ text }) => `${text}: survived`),
    ...SURVIVORS.filter(
      (one) => mutated[one.file] !== undefined && !found.some(({ listed }) => listed === one),
    ).map(({ file, line }) => `${file}: "${line}": is killed; take it out of survivors.ts`),
    ...scores
      .filter((score) => percentOf(score) < LEAST_KILLED_PERCENT)
      .map(({ name }) => `${name}: under ${LEAST_KILLED_PERCENT} %`),
  ];
  for (const one of wrong) say(one);
  if (wrong.length > 0) process.exitCode = 1;
  return scores;
}

/** The folder of a `core/`, and each file beside one. */
function roomOf(path: string): string {
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
