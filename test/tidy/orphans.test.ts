/** Nothing lies about: every source file is needed by something other than its own test. */
import { posix } from 'node:path';
import { test } from 'vitest';
import { reached, targetOf } from './graph.ts';
import { isMain, isTest, projectFiles, textOf } from './house.ts';
import { parseSources } from './sources.ts';
import { expectNone } from './violations.ts';

const sources = parseSources();
const files = projectFiles();

/** Files whose types come from packages that only they need, and that are not installed here. */
const UNCHECKED = ['examples/bug-tracker/kafka.ts'];

test('a tsconfig includes every TypeScript file', () => {
  expectNone(
    files
      .filter((path) => path.endsWith('.ts') && !sources.has(path) && !UNCHECKED.includes(path))
      .map((path) => `${path}: no tsconfig includes it, so that nothing checks its types`),
  );
});

test('every source file is reached from a main, a script, a test of something else, or a bench', () => {
  const entries = [...sources.keys()].filter(isEntry);
  const found = reached(entries, {
    sources,
    follow: ({ path }, { specifier }) => targetOf(path, specifier) !== subjectOf(path),
    throughLiterals: true,
  });
  expectNone(
    [...sources.keys()]
      .filter((path) => !found.has(path))
      .map((path) => `${path}: nothing needs it but its own test; use it or remove it`),
  );
});

/** The first files of processes: mains, tests, configs, benches, examples, and files that a script or a deployment names. */
function isEntry(path: string): boolean {
  if (isTest(path) || isMain(path) || /\.config\.ts$|^test\/bench\/|^examples\//.test(path)) return true;
  return callers.some((text) => text.includes(path));
}

const callers = files
  .filter((path) => !/\.(ts|md|sql)$|^package-lock\.json$/.test(path))
  .map((path) => textOf(path));

/** The file that a test is named after: `accept.ts` of `accept.test.ts`. */
function subjectOf(path: string): string | undefined {
  if (!isTest(path)) return undefined;
  return posix.join(posix.dirname(path), posix.basename(path).replace(/(\.\w+)*\.test\.ts$/, '.ts'));
}
