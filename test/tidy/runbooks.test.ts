/** Checks that a test follows each runbook, and each page that an alert names, and that such a page begins with its alerts. */
import { posix } from 'node:path';
import { expect, test } from 'vitest';
import { projectFiles, textOf } from './projectFiles.ts';

const OPERATING = 'docs/operating';
const FOLDER = `${OPERATING}/runbooks`;
const files = projectFiles();
const alerts = [
  ...textOf('deploy/monitoring/rules.yaml').matchAll(/- alert: (\w+)[\s\S]*?runbook_url: \S+\/main\/(\S+)/g),
].map(([, alert = '', page = '']) => ({ alert, page }));

test('a test follows every runbook, and the commands of every page that an alert names', () => {
  const named = alerts.map(({ page }) => page);
  const runbooks = files.filter((path) => posix.dirname(path) === FOLDER && !path.endsWith('/README.md'));
  const tests = files.filter((path) => /^test\/.*\.test\.ts$/.test(path)).map(textOf);
  const isFollowed = (page: string): boolean => {
    const names = [posix.relative(FOLDER, page), posix.relative(OPERATING, page)];
    const calls = names.map((name) => new RegExp(`\\b(follow|pageOf)\\(\\s*'${name}'`));
    return /^```sh run/m.test(textOf(page)) && tests.some((text) => calls.some((call) => call.test(text)));
  };
  expect(named.length).toBeGreaterThan(0);
  const pages = new Set([...named, ...runbooks]);
  expect([...pages].filter((page) => !isFollowed(page))).toEqual([]);
});

test('the first paragraph of a page lists the alerts that name the page', () => {
  const pages = Map.groupBy(alerts, ({ page }) => page);
  for (const [page, of] of pages) {
    const [, first = ''] = textOf(page).split('\n\n');
    expect([page, first.match(/Questlog\w+/g)]).toEqual([page, of.map(({ alert }) => alert)]);
  }
});
