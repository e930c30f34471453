/** Checks that each defence of the threat model names an existing test. */
import { posix } from 'node:path';
import { expect, test } from 'vitest';
import { isTest, projectFiles, textOf } from './projectFiles.ts';
import { expectNone } from './violations.ts';

const PAGE = 'docs/threat-model.md';

test('each row of the threat model names a test, and each test that it names exists', () => {
  const files = new Set(projectFiles());
  const rows = textOf(PAGE)
    .split('\n')
    .filter((line) => line.startsWith('| ') && !/^\| (who|---) \|/.test(line));
  expect(rows.length).toBeGreaterThan(10);
  expectNone(
    rows.flatMap((row) => {
      const shownBy = row.split(' | ').at(-1) ?? '';
      const named = [...shownBy.matchAll(/\]\(([^)]+)\)/g)].map(([, path]) => posix.join('docs', path ?? ''));
      const missing = named.filter((path) => !(files.has(path) && isTest(path)));
      return [
        ...(named.length === 0 ? [`${PAGE}: no test is named for: ${row}`] : []),
        ...missing.map((path) => `${PAGE}: ${path} is no test`),
      ];
    }),
  );
});
