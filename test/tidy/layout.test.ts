/** Where things lie, how long they are and what they are called. */
import { posix } from 'node:path';
import { test } from 'vitest';
import { targetOf } from './graph.ts';
import { isTest, projectFiles, textOf, workspaceOf } from './house.ts';
import { parseSources } from './sources.ts';
import { expectNone } from './violations.ts';

const files = projectFiles();
/** Here, since to parse all of them may take longer on a busy machine than a test may. */
const parsed = parseSources();
/** Without tests and what only they use. */
const sources = files.filter(
  (path) =>
    path.endsWith('.ts') &&
    !isTest(path) &&
    !/\.(testing|contract)\.ts$|\/(testing|contract|fixtures)\//.test(path),
);
const product = sources.filter((path) => /^(schemas|services)\//.test(path));

const TOP = [
  'services docs deploy examples schemas test',
  'package.json package-lock.json turbo.json tsconfig.base.json biome.json docker-compose.yml',
  'README.md LICENSE SECURITY.md CHANGELOG.md',
].flatMap((line) => line.split(' '));

const SERVICES = ['runtime', 'ingest', 'linker', 'projector', 'console', 'standalone', 'cli', 'client'];

const MAX_LINES = 400;
const MAX_FILES = 12;
/** A shorter file with one importer in its workspace is a part of that importer, unless it has a test of its own. */
const SPLINTER_LINES = 60;
/** Short files with one importer that are files of their own all the same, each with its reason. */
const SHORT: Readonly<Record<string, string>> = {
  'services/cli/src/ask/audit.ts': 'one file a command',
  'services/console/ui/pages.ts': 'the list of pages, where a new one goes',
  'services/console/ui/signInForm.ts': 'the only page that is seen without the token',
  'services/ingest/src/admin/retryLinks.ts': 'one file a thing that operators do',
  'services/ingest/src/http/deadLetterRoutes.ts': 'one file a room that operators reach',
  'services/ingest/src/events/sendTestEvent.ts': 'one file a thing that operators do',
  'services/projector/src/auditWriter.ts': 'one file a projected topic',
  'services/projector/src/ledgerWatch.ts': 'what is told of the books, apart from what is projected',
  'services/projector/src/reports/linksWriter.ts': 'one file a projected topic',
};

test('the top folder holds only what a newcomer looks for there', () => {
  const names = new Set(files.map((path) => path.split('/')[0] ?? ''));
  expectNone(
    [...names]
      .filter((name) => !TOP.includes(name) && !name.startsWith('.'))
      .map((name) => `${name}: does not belong in the top folder; its list is in test/tidy/layout.test.ts`),
  );
});

test('services holds those of the map and nothing else', () => {
  const names = new Set(
    files.filter((path) => path.startsWith('services/')).map((path) => path.split('/')[1]),
  );
  expectNone(
    [...names]
      .filter((name) => name === undefined || !SERVICES.includes(name))
      .map((name) => `services/${name}: is not one of ${SERVICES.join(', ')}`),
  );
});

test(`a source file has at most ${MAX_LINES} lines`, () => {
  expectNone(
    files
      .filter((path) => path.endsWith('.ts'))
      .map((path) => ({ path, lines: linesOf(path) }))
      .filter(({ lines }) => lines > MAX_LINES)
      .map(
        ({ path, lines }) =>
          `${path}: has ${lines} lines; ${MAX_LINES} is the most: split it by what it does`,
      ),
  );
});

test(`a folder has at most ${MAX_FILES} source files`, () => {
  const folders = Map.groupBy(sources, (path) => posix.dirname(path));
  expectNone(
    [...folders]
      .filter(([, inside]) => inside.length > MAX_FILES)
      .map(
        ([folder, inside]) =>
          `${folder}: has ${inside.length} source files; give it rooms, or merge what is one`,
      ),
  );
});

test(`a file under ${SPLINTER_LINES} lines has several importers, or a test, or a reason`, () => {
  expectNone(
    splinters()
      .filter((path) => SHORT[path] === undefined)
      .map((path) => `${path}: merge it into its one importer, or give the reason in SHORT`),
  );
});

test('an exception for a short file is still needed', () => {
  const short = splinters();
  expectNone(
    Object.keys(SHORT)
      .filter((path) => !short.includes(path))
      .map((path) => `${path}: needs no exception any more; take it out of SHORT`),
  );
});

test('TypeScript files and their folders are named in camelCase', () => {
  const camelCase = /^[a-z][a-zA-Z0-9]*(\.[a-z][a-zA-Z0-9]*)*$/;
  expectNone(
    files
      .filter((path) => path.endsWith('.ts'))
      // A folder of these two is named as packages and charts are.
      .filter(
        (path) =>
          !path
            .replace(/^(examples|deploy)\/[a-z-]+\//, '')
            .split('/')
            .every((name) => camelCase.test(name)),
      )
      .map((path) => `${path}: files and folders are named in camelCase`),
  );
});

test('no name says nothing: utils, helpers, common, manager', () => {
  const empty =
    /(^|[^a-zA-Z])(utils?|helpers?|common|managers?)([^a-z]|$)|(Utils?|Helpers?|Common|Managers?)([^a-z]|$)/;
  expectNone(
    files
      .filter((path) => empty.test(path))
      .map((path) => `${path}: "${empty.exec(path)?.[0]}" names nothing; name the file for its one job`),
  );
});

test('a TypeScript file begins with a comment that says its one job', () => {
  expectNone(
    files
      .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts'))
      .filter((path) => !/^(#!.*\n)?\/\*\*/.test(textOf(path)))
      .map((path) => `${path}: begins without a comment; say in a sentence what the file is for`),
  );
});

/** Entries have no importer, and another workspace's file is no place to merge into. */
function splinters(): string[] {
  const importers = new Map<string, Set<string>>();
  for (const { path, imports } of parsed.values()) {
    if (!product.includes(path)) continue;
    for (const { specifier } of imports) {
      const target = targetOf(path, specifier) ?? '';
      importers.set(target, (importers.get(target) ?? new Set()).add(path));
    }
  }
  return product.filter((path) => {
    const isTested = files.includes(path.replace(/ts$/, 'test.ts'));
    const [importer, ...others] = importers.get(path) ?? [];
    const isOneWith = others.length === 0 && workspaceOf(importer ?? '') === workspaceOf(path);
    return isOneWith && linesOf(path) < SPLINTER_LINES && !isTested;
  });
}

function linesOf(path: string): number {
  return textOf(path).split('\n').length - 1;
}
