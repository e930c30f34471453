/** The reference says what the code says. */
import { openApi } from '@questlog/ingest/http/openapi/openapi';
import { adminApi } from '@questlog/ingest/http/openapi/openapiAdmin';
import { expect, test } from 'vitest';
import { SECURITY_PAGE, securityPage } from '../abuse/securityPage.ts';
import { PERFORMANCE_PAGE, performancePage } from '../bench/path/performancePage.ts';
import { PAGE, reliabilityPage } from '../faults/campaign/reliabilityPage.ts';
import { readResults } from '../faults/campaign/results.ts';
import { projectFiles, textOf } from './house.ts';
import { REFERENCE, referencePages } from './referencePages.ts';
import { parseSources } from './sources.ts';
import { expectNone } from './violations.ts';

const pages = await referencePages();
const files = projectFiles();

test.each(Object.entries(pages))('%s is what its source makes of it', (name, text) => {
  const path = `${REFERENCE}/${name}`;
  expect(files, `${path} is missing; run: npm run docs:reference`).toContain(path);
  expect(textOf(path), `${path} is not up to date; run: npm run docs:reference`).toBe(text);
});

test('the page of the campaign tells what its result file holds', () => {
  expect(textOf(PAGE), `${PAGE} is not up to date; run: npm run docs:reference`).toBe(
    reliabilityPage(readResults()),
  );
});

test('the page of what was tried against the product tells what its figures say', () => {
  expect(textOf(SECURITY_PAGE), `${SECURITY_PAGE} is not up to date; run: npm run docs:reference`).toBe(
    securityPage(),
  );
});

test('the page of the bench tells what its result says', () => {
  expect(textOf(PERFORMANCE_PAGE), `${PERFORMANCE_PAGE} is not up to date; run: npm run docs:reference`).toBe(
    performancePage(),
  );
});

test('a parameter is told with what it may be, also where a sentence says more', () => {
  const limitOf = (list: string) => {
    const [, told] = pages['http.md']?.split(`### GET ${list}\n`) ?? [];
    return told?.split('###')[0]?.match(/^- query `limit`(.*)$/m)?.[1];
  };
  expect(limitOf('/v1/builds')).toBe(' integer from 1 to 1000, default 100');
  expect(limitOf('/v1/events')).toMatch(/^ integer from 1 to 1000, default 100: Where so many are too large/);
});

test('each line of the admin listener’s list is a route; what one tells in a list stands below it', () => {
  const [, list = ''] = pages['http.md']?.split(/^## (?:The admin listener|Shapes)$/m) ?? [];
  const lines = list.split('\n').filter((line) => line.startsWith('- '));
  expect(lines.length).toBeGreaterThan(20);
  expectNone(lines.filter((line) => !/^- `[A-Z]+ \//.test(line)));
});

test('every page of the reference is generated', () => {
  expectNone(
    files
      .filter(
        (path) => path.startsWith(`${REFERENCE}/`) && pages[path.slice(REFERENCE.length + 1)] === undefined,
      )
      .map((path) => `${path}: is not made by test/tidy/referencePages.ts`),
  );
});

test('the reference has every route of the two listeners and no other', () => {
  const sources = parseSources();
  const routesOf = (...paths: string[]): string[] => {
    const literals = paths.flatMap((path) => sources.get(path)?.literals ?? []);
    const routes = literals.map(({ text }) => text).filter((text) => /^\/[a-z]/.test(text));
    return [...new Set(routes.map((route) => route.replace(/:(\w+)/g, '{$1}')))].sort();
  };
  const pathsOf = ({ paths }: Record<string, unknown>): string[] => Object.keys(paths ?? {}).sort();
  expect(pathsOf(adminApi()), 'adminApp.ts and openapiAdmin.ts').toEqual(
    routesOf(
      'services/ingest/src/http/adminApp.ts',
      'services/ingest/src/http/audit/auditRoute.ts',
      'services/ingest/src/http/deadLetterRoutes.ts',
      'services/ingest/src/http/ledgerRoutes.ts',
      'services/ingest/src/retention/cost.ts',
      'services/runtime/src/process/healthRoutes.ts',
      'services/console/src/tailRoute.ts',
      'services/console/src/lagRoute.ts',
      'services/questlog/src/backup/backups.ts',
    ),
  );
  expect(pathsOf(openApi('A')), 'publicApp.ts and openapi.ts').toEqual(
    routesOf(
      'services/ingest/src/http/hotRoute.ts',
      'services/ingest/src/http/publicApp.ts',
      'services/ingest/src/http/uploadRoutes.ts',
    ),
  );
});
