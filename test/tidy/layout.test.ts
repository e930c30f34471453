/** Where things lie, how long they are and what they are called. */
import { test } from 'vitest';
import { projectFiles, textOf } from './house.ts';
import { expectNone } from './violations.ts';

const files = projectFiles();

const TOP = [
  'services docs deploy examples schemas test',
  'package.json package-lock.json turbo.json tsconfig.base.json biome.json docker-compose.yml',
  'README.md LICENSE SECURITY.md CHANGELOG.md',
].flatMap((line) => line.split(' '));

const SERVICES = ['runtime', 'ingest', 'linker', 'projector', 'standalone'];

const MAX_LINES = 400;

test('the top folder holds only what a newcomer looks for there', () => {
  const names = new Set(files.map((path) => path.split('/')[0] ?? ''));
  expectNone(
    [...names]
      .filter((name) => !TOP.includes(name) && !name.startsWith('.'))
      .map((name) => `${name}: does not belong in the top folder; its list is in test/tidy/layout.test.ts`),
  );
});

test('services holds the five of the map and nothing else', () => {
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

function linesOf(path: string): number {
  return textOf(path).split('\n').length - 1;
}
