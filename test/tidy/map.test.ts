/** Checks that the README's map names every folder, and that the path of one event follows the imports. */
import { posix } from 'node:path';
import { expect, test } from 'vitest';
import { reached } from './graph.ts';
import { projectFiles, textOf } from './projectFiles.ts';
import type { Source } from './sources.ts';

const PATH_BEGINS = {
  'README.md': 'One event, from request to row:',
  'docs/architecture.md': '## A request, step by step',
};

test('the README’s map names every folder of services/*/src and no other folder', () => {
  const rooms = projectFiles()
    .flatMap((path) => /^services\/[a-z]+\/src\/(?:.+\/)?(?=[^/]+\.ts$)/.exec(path)?.[0].slice(0, -1) ?? [])
    .filter((folder) => !folder.split('/').includes('testing'))
    .flatMap((folder) => [folder, folder.split('/').slice(0, 3).join('/')]);
  expect(roomsOfMap()).toEqual([...new Set(rooms)].sort());
});

test('the path of one event is the same in README and in the architecture', () => {
  expect(pathOf('docs/architecture.md')).toEqual(pathOf('README.md'));
});

test('each file on the path of one event is imported by an earlier file of its service', () => {
  const stops = pathOf('README.md').filter((path) => path.endsWith('.ts'));
  const begins = stops.filter((path) => /hotRoute|projector\.ts/.test(path));
  const met = reached(begins, { sources: importsOnly(), follow: () => true, throughLiterals: false });
  expect(stops.length).toBeGreaterThan(10);
  expect(stops.filter((path) => !met.has(path))).toEqual([]);
});

/**
 * Reads the map. A line names a folder and its subfolders (`kafka/ client/ read/  purpose`). The folder is inside the folder of
 * the closest line above with less indentation.
 */
function roomsOfMap(): string[] {
  const map = /^services\/\n(?<lines>[\s\S]*?)^```/m.exec(textOf('README.md'))?.groups?.['lines'] ?? '';
  const outer: { depth: number; path: string }[] = [{ depth: 0, path: 'services' }];
  const rooms = map.split('\n').flatMap((line) => {
    const names =
      /^ +(?<names>(?:[\w/]+\/ ?)+)(?: |$)/.exec(line)?.groups?.['names']?.trim().split(' ') ?? [];
    const [first, ...inner] = names;
    if (first === undefined) return [];
    const depth = line.search(/\S/);
    while ((outer.at(-1)?.depth ?? 0) >= depth) outer.pop();
    const path = posix.join(outer.at(-1)?.path ?? '', first.replace(/\/$/, ''));
    outer.push({ depth, path });
    return [path, ...inner.map((name) => `${path}/${name.replace(/\/$/, '')}`)];
  });
  return rooms.sort();
}

/** Returns the files that a page links to between the words that start the path and the next heading or paragraph. */
function pathOf(page: keyof typeof PATH_BEGINS): string[] {
  const text = textOf(page);
  const from = text.indexOf(PATH_BEGINS[page]) + PATH_BEGINS[page].length;
  const path = text.slice(from).trimStart().split('\n\n')[0] ?? '';
  const links = [...path.matchAll(/\[`[\w./-]+`\]\((?<link>[^)]+)\)/g)];
  return links.map(({ groups }) => posix.join(posix.dirname(page), groups?.['link'] ?? ''));
}

/** Finds imports by their text, which is faster than the compiler and sufficient to follow a path. */
function importsOnly(): ReadonlyMap<string, Source> {
  const paths = projectFiles().filter((path) => path.endsWith('.ts'));
  return new Map(
    paths.map((path) => {
      const found = [...textOf(path).matchAll(/ from '(?<specifier>[^']+)'/g)];
      const imports = found.map(({ groups }) => {
        return {
          specifier: groups?.['specifier'] ?? '',
          names: [],
          isTypeOnly: false,
          isLater: false,
          line: 0,
        };
      });
      return [path, { path, imports, uses: [], literals: [], patterns: [] }];
    }),
  );
}
