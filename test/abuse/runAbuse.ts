/**
 * `npm run test:abuse`: runs the abuse suite in its long form, part by part, with the other tests of malformed input, and
 * writes the page of the results. A part that fails or exceeds its time is listed on the page, and the next part follows.
 * `--short` uses the form of `npm run test:all`. With paths, only those files run and no page is written.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Figure } from './figures.ts';
import { type Ground, OTHER_TESTS, SECURITY_FIGURES, SECURITY_PAGE, securityPage } from './securityPage.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Maximum duration of a part, in minutes. */
const MINUTES = 15;
const MINUTES_OF: Readonly<Record<string, number>> = {
  'test/abuse/regexes.test.ts': 25,
  // Two OpenAPI documents, and the installation of Python packages.
  'test/abuse/schemathesis.test.ts': 160,
};
const ENDED_WITHIN_MS = 30_000;
const INTERRUPTED = 130;

const isShort = process.argv.includes('--short');
const given = process.argv.slice(2).filter((argument) => argument !== '--short');
const folder = mkdtempSync(join(tmpdir(), 'questlog-abuse-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));

let endPart: (signal: NodeJS.Signals) => void = () => {};
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    endPart('SIGTERM');
    process.exit(INTERRUPTED);
  });
}
const isGood = given.length > 0 ? (await run(given)).status === 0 : await runAll();
process.exitCode = isGood ? 0 : 1;

/** Runs all parts; writes the page after each part, so that an interrupted run keeps its results. */
async function runAll(): Promise<boolean> {
  const files = readdirSync(join(ROOT, 'test/abuse')).filter((name) => name.endsWith('.test.ts'));
  const parts = [...files.sort().map((name) => [`test/abuse/${name}`]), OTHER_TESTS.map(([path]) => path)];
  const ground: Ground = {
    form: isShort ? 'short' : 'long',
    at: new Date().toISOString(),
    cpus: availableParallelism(),
    node: process.versions.node,
  };
  const beganMs = performance.now();
  const found: Figure[] = [];
  let isGood = true;
  for (const [i, paths] of parts.entries()) {
    const done = await run(paths);
    isGood &&= done.status === 0;
    found.push(...figuresOf(paths, done));
    const left = parts.slice(i + 1).map(([path = '']) => ({ attack: path, tried: '–', held: 'not reached' }));
    const minutes = Math.ceil((performance.now() - beganMs) / 60_000);
    const lines = [{ ...ground, minutes }, ...found, ...left].map((line) => JSON.stringify(line));
    writeFileSync(join(ROOT, SECURITY_FIGURES), `${lines.join('\n')}\n`);
    writeFileSync(join(ROOT, SECURITY_PAGE), securityPage());
  }
  process.stdout.write(`${SECURITY_PAGE}\n`);
  return isGood;
}

interface Done {
  readonly status: number | null;
  readonly isTooLate: boolean;
  readonly told: readonly Figure[];
  readonly files: readonly TestedFile[];
}

/** A test file of the report of vitest. */
interface TestedFile {
  readonly name: string;
  readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[];
}

/** Runs vitest in its own process group, so that the whole group can be killed. */
async function run(paths: readonly string[]): Promise<Done> {
  const [figures, report] = [join(folder, 'figures.jsonl'), join(folder, 'report.json')];
  for (const file of [figures, report]) rmSync(file, { force: true });
  const isWindows = process.platform === 'win32';
  const projects = ['abuse', 'overload', 'fast', 'e2e'].flatMap((name) => ['--project', name]);
  const child = spawn('npm', ['run', '-s', 'vitest', '--', ...projects, ...paths], {
    ...{ cwd: ROOT, stdio: 'inherit', shell: isWindows, detached: !isWindows },
    env: {
      // Without this setting, a missing tool would skip its attack without a message on the page.
      ...(isShort ? {} : { QUESTLOG_TEST_RUNS: 'long', QUESTLOG_REQUIRE: 'python' }),
      ...process.env,
      ...{ QUESTLOG_ABUSE_FIGURES: figures, QUESTLOG_TEST_REPORT: report },
    },
  });
  endPart = (signal) => {
    if (child.pid === undefined || child.exitCode !== null) return;
    if (isWindows) child.kill(signal);
    else process.kill(-child.pid, signal);
  };
  let isTooLate = false;
  const minutes = Math.max(...paths.map((path) => MINUTES_OF[path] ?? MINUTES));
  const late = setTimeout(() => {
    isTooLate = true;
    endPart('SIGTERM');
  }, minutes * 60_000);
  const killed = setTimeout(() => endPart('SIGKILL'), minutes * 60_000 + ENDED_WITHIN_MS);
  const status = await new Promise<number | null>((resolve) => child.once('close', resolve));
  for (const timer of [late, killed]) clearTimeout(timer);
  const read = (path: string): string => (existsSync(path) ? readFileSync(path, 'utf8') : '');
  const told = read(figures).split('\n').filter(Boolean);
  return {
    ...{ status, isTooLate, told: told.map((line) => JSON.parse(line)) },
    files: JSON.parse(read(report) || '{"testResults":[]}').testResults,
  };
}

/** Returns the figures of the part, or the number of passed tests if there are no figures, and each failed test. */
function figuresOf(paths: readonly string[], { status, isTooLate, told, files }: Done): Figure[] {
  const counted = paths.flatMap((path) => {
    const cases = files.find(({ name }) => name.endsWith(path))?.assertionResults;
    if (cases === undefined) return [];
    const passed = cases.filter((one) => one.status === 'passed').length;
    const [, what = path] = OTHER_TESTS.find(([of]) => of === path) ?? [];
    return [{ attack: what, tried: `${cases.length} cases`, held: `${passed} passed` }];
  });
  const failed = files.flatMap(({ assertionResults }) =>
    assertionResults.filter((one) => one.status === 'failed').map(({ fullName }) => fullName),
  );
  if (isTooLate) failed.push(`${paths[0]}: it was ended, since it took too long`);
  if (status !== 0 && failed.length === 0) failed.push(`${paths[0]}: exit code ${status}`);
  const failures = failed.map((attack) => ({ attack, tried: 'see its output', held: '**failed**' }));
  return [...(told.length > 0 ? told : counted), ...failures];
}
