/** Checks that every source file is used by more than its own test. */
import { posix } from 'node:path';
import { test } from 'vitest';
import { reached, targetOf } from './graph.ts';
import { isMain, isTest, projectFiles, textOf } from './projectFiles.ts';
import { parseSources } from './sources.ts';
import { expectNone } from './violations.ts';

const sources = parseSources();
const files = projectFiles();

/** Files that need types of packages that this project does not install. */
const UNCHECKED = ['examples/bug-tracker/kafka.ts'];

test('a tsconfig includes every TypeScript file', () => {
  expectNone(
    files
      .filter((path) => path.endsWith('.ts') && !sources.has(path) && !UNCHECKED.includes(path))
      .map((path) => `${path}: no tsconfig includes the file, so its types are not checked`),
  );
});

test('every source file is reachable from an entry file, a script, another file’s test, or a benchmark', () => {
  const entries = [...sources.keys()].filter(isEntry);
  const found = reached(entries, {
    sources,
    follow: ({ path }, { specifier }) => targetOf(path, specifier) !== subjectOf(path),
    throughLiterals: true,
  });
  expectNone(
    [...sources.keys()]
      .filter((path) => !found.has(path))
      .map((path) => `${path}: only its own test uses the file; use or remove the file`),
  );
});

/** Returns entry files: mains, tests, configurations, benchmarks, examples, and files that a script or a deployment names. */
function isEntry(path: string): boolean {
  if (isTest(path) || isMain(path) || /\.config\.ts$|^test\/bench\/|^examples\//.test(path)) return true;
  return callers.some((text) => text.includes(path));
}

const callers = files
  .filter((path) => !/\.(ts|md|sql)$|^package-lock\.json$/.test(path))
  .map((path) => textOf(path));

/** Returns the file that a test is named after: `accept.ts` for `accept.test.ts`. */
function subjectOf(path: string): string | undefined {
  if (!isTest(path)) return undefined;
  return posix.join(posix.dirname(path), posix.basename(path).replace(/(\.\w+)*\.test\.ts$/, '.ts'));
}
