/**
 * `npm run test:mutation [-- <folder or file> …]` has Stryker change the decisions of the product one by one, and tells
 * which changes no test notices. Fails under 85 % noticed, and on a survivor without a reason in `survivors.ts`.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isTest, projectFiles, ROOT } from '../tidy/house.ts';
import { SURVIVORS } from './survivors.ts';

const LEAST_KILLED_PERCENT = 85;
const MUTATED =
  /^services\/(\w+\/src\/(.+\/)?core\/|runtime\/src\/consumer\/|ingest\/src\/events\/(quotas|replays|storeEvents)\.ts)/;
const HERE = fileURLToPath(new URL('.', import.meta.url));
const REPORT = `${ROOT}.data/mutation/report.json`;

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

const asked = process.argv.slice(2).map((path) => posix.normalize(path).replace(/\/$/, ''));
const files = projectFiles()
  .filter((path) => MUTATED.test(path) && path.endsWith('.ts') && !isTest(path))
  .filter((path) => asked.length === 0 || asked.some((part) => `${path}/`.startsWith(`${part}/`)));
if (files.length === 0) throw new Error(`nothing of ${asked.join(', ')} is mutated: ${MUTATED}`);

if (!existsSync(`${HERE}node_modules`)) {
  execFileSync('npm', ['ci', '--ignore-scripts'], { cwd: HERE, stdio: 'inherit' });
}
const stryker = `${HERE}node_modules/@stryker-mutator/core/bin/stryker.js`;
const { status } = spawnSync(
  process.execPath,
  [stryker, 'run', `${HERE}stryker.json`, '--mutate', files.join(',')],
  { cwd: ROOT, stdio: 'inherit' },
);
if (status === 0) tell(JSON.parse(readFileSync(REPORT, 'utf8')).files);
else process.exitCode = 1;

function tell(mutated: Readonly<Record<string, MutatedFile>>): void {
  const rooms = Map.groupBy(Object.entries(mutated), ([path]) => roomOf(path));
  for (const [room, inside] of rooms) say(`${room}: ${scoreOf(inside.map(([, file]) => file))}`);
  say(`all: ${scoreOf(Object.values(mutated))}`);
  const found = Object.entries(mutated).flatMap(([path, file]) => survivorsOf(path, file));
  const wrong = [
    ...found.filter(({ listed }) => listed === undefined).map(({ text }) => `${text}: survived`),
    ...SURVIVORS.filter(
      (one) => mutated[one.file] !== undefined && !found.some(({ listed }) => listed === one),
    ).map(({ file, line }) => `${file}: "${line}": is killed; take it out of survivors.ts`),
  ];
  for (const one of wrong) say(one);
  const { killed, all } = countsOf(Object.values(mutated));
  if (wrong.length > 0 || killed < (all * LEAST_KILLED_PERCENT) / 100) process.exitCode = 1;
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

function scoreOf(files: readonly MutatedFile[]): string {
  const { killed, all } = countsOf(files);
  return `${killed} of ${all} mutants killed, ${((100 * killed) / Math.max(1, all)).toFixed(1)} %`;
}

function countsOf(files: readonly MutatedFile[]): { killed: number; all: number } {
  const mutants = files.flatMap((file) => file.mutants);
  const killed = mutants.filter(({ status }) => status === 'Killed' || status === 'Timeout').length;
  return { killed, all: killed + mutants.filter(isSurvivor).length };
}

function isSurvivor({ status }: Mutant): boolean {
  return status === 'Survived' || status === 'NoCoverage';
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
