/** Checks the layout of folders, the size of files, and file names. */
import { posix } from 'node:path';
import { test } from 'vitest';
import { isTest, projectFiles, textOf } from './projectFiles.ts';
import { expectNone } from './violations.ts';

const files = projectFiles();
/** Sources without tests and test support. */
const sources = files.filter(
  (path) =>
    path.endsWith('.ts') &&
    !isTest(path) &&
    !/\.(testing|contract)\.ts$|\/(testing|contract|fixtures)\//.test(path),
);

const TOP = [
  'services docs deploy examples schemas test',
  'package.json package-lock.json turbo.json tsconfig.base.json biome.json docker-compose.yml',
  'README.md LICENSE SECURITY.md CHANGELOG.md',
].flatMap((line) => line.split(' '));

const SERVICES = [
  'runtime',
  'ingest',
  'operations',
  'linker',
  'projector',
  'console',
  'questlog',
  'cli',
  'client',
];

/** Limits that a file or folder exceeds only with a reason; more than that is a warning, not a failure. */
const MAX_LINES = 400;
const MAX_FILES = 12;
/** Files and folders above the limits, with their reasons. */
const LARGE: Readonly<Record<string, string>> = {
  'deploy/kafka-local': 'one command, one file per part of the stack',
  'schemas/src/topics/directoryEntry.ts': 'one schema for all records of the topic',
  'test/clickhouseCluster/studioAccounts.test.ts':
    'all tests of the accounts use the same cluster, which takes long to start',
};

test('the top folder has only the listed files and folders', () => {
  const names = new Set(files.map((path) => path.split('/')[0] ?? ''));
  expectNone(
    [...names]
      .filter((name) => !TOP.includes(name) && !name.startsWith('.'))
      .map((name) => `${name}: does not belong in the top folder; its list is in test/tidy/layout.test.ts`),
  );
});

test('the folder services has only the listed services', () => {
  const names = new Set(
    files.filter((path) => path.startsWith('services/')).map((path) => path.split('/')[1]),
  );
  expectNone(
    [...names]
      .filter((name) => name === undefined || !SERVICES.includes(name))
      .map((name) => `services/${name}: is not one of ${SERVICES.join(', ')}`),
  );
});

test('warns of source files and folders above the limits that have no reason in LARGE', () => {
  for (const [path, problem] of large()) {
    if (LARGE[path] === undefined)
      console.warn(`warning: ${path}: ${problem}; split it, or give the reason in LARGE`);
  }
  expectNone(
    Object.keys(LARGE)
      .filter((path) => !large().has(path))
      .map((path) => `${path}: is below the limits; remove it from LARGE`),
  );
});

test('TypeScript files and their folders are named in camelCase', () => {
  const camelCase = /^[a-z][a-zA-Z0-9]*(\.[a-z][a-zA-Z0-9]*)*$/;
  expectNone(
    files
      .filter((path) => path.endsWith('.ts'))
      // Folders in `examples` and `deploy` are named like packages and charts.
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

test('no file is named utils, helpers, common, or manager', () => {
  const empty =
    /(^|[^a-zA-Z])(utils?|helpers?|common|managers?)([^a-z]|$)|(Utils?|Helpers?|Common|Managers?)([^a-z]|$)/;
  expectNone(
    files
      .filter((path) => empty.test(path))
      .map(
        (path) =>
          `${path}: "${empty.exec(path)?.[0]}" does not describe the content; name the file for its main export`,
      ),
  );
});

test('a TypeScript file begins with a comment that states its purpose', () => {
  expectNone(
    files
      .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts'))
      .filter((path) => !/^(#!.*\n)?\/\*\*/.test(textOf(path)))
      .map((path) => `${path}: has no comment at the top; state the purpose of the file in one sentence`),
  );
});

/** Maps each file above MAX_LINES and each folder above MAX_FILES to the problem. */
function large(): ReadonlyMap<string, string> {
  const long = files
    .filter((path) => path.endsWith('.ts') && linesOf(path) > MAX_LINES)
    .map((path) => [path, `has ${linesOf(path)} lines, the limit is ${MAX_LINES}`] as const);
  const full = [...Map.groupBy(sources, (path) => posix.dirname(path))]
    .filter(([, inside]) => inside.length > MAX_FILES)
    .map(
      ([folder, inside]) => [folder, `has ${inside.length} source files, the limit is ${MAX_FILES}`] as const,
    );
  return new Map([...long, ...full]);
}

function linesOf(path: string): number {
  return textOf(path).split('\n').length - 1;
}
