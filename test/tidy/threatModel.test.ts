/** Each defense of the threat model and each attempted attack names a test that exists. */
import { posix } from 'node:path';
import { expect, test } from 'vitest';
import { isTest, projectFiles, textOf } from './projectFiles.ts';
import { expectNone } from './violations.ts';

const PAGE = 'docs/threat-model.md';
const ATTACKS = 'docs/evidence/attacks.jsonl';

const files = new Set(projectFiles());

test('each attack of the threat model names a test, and each test that it names exists', () => {
  const [, attacks = ''] = /^## Attacks$([\s\S]*?)^## /m.exec(textOf(PAGE)) ?? [];
  const lines = attacks.split('\n').filter((line) => line.startsWith('- '));
  expect(lines.length).toBeGreaterThan(10);
  expectNone(
    lines.flatMap((line) => {
      const tests = line.slice(line.lastIndexOf(' (['));
      const paths = [...tests.matchAll(/\]\(([^)]+)\)/g)].map(([, path]) => posix.join('docs', path ?? ''));
      return [...(paths.length === 0 ? [`${PAGE}: no test for: ${line}`] : []), ...missingOf(PAGE, paths)];
    }),
  );
});

test('each attempted attack names a test, and each test that it names exists', () => {
  const attacks: { attempt: string; tests: string[] }[] = textOf(ATTACKS)
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));
  expect(attacks.length).toBeGreaterThan(10);
  expectNone(
    attacks.flatMap(({ attempt, tests }) => [
      ...(tests.length === 0 ? [`${ATTACKS}: no test for: ${attempt}`] : []),
      ...missingOf(ATTACKS, tests),
    ]),
  );
});

/** Returns a violation for each path that is not a test. */
function missingOf(page: string, paths: readonly string[]): string[] {
  return paths
    .filter((path) => !(files.has(path) && isTest(path)))
    .map((path) => `${page}: ${path} is not a test`);
}
