/** Checks that pages are linked, and that linked files, headings, and commands exist. */
import { posix } from 'node:path';
import { PROBLEMS } from '@questlog/schemas/http/problem';
import { expect, test } from 'vitest';
import { lineAt, manifestOf, projectFiles, textOf } from './projectFiles.ts';
import { expectNone } from './violations.ts';

const files = projectFiles();
const pages = files.filter((path) => path.endsWith('.md'));

interface Link {
  readonly page: string;
  readonly line: number;
  /** Path from the root; the path of a folder does not end with a slash. */
  readonly target: string;
  readonly anchor: string | undefined;
}

test('every page is reachable by links from the README', () => {
  const found = new Set(['README.md']);
  for (const page of found) {
    for (const { target } of linksOf(page)) {
      if (pages.includes(target)) found.add(target);
      if (pages.includes(`${target}/README.md`)) found.add(`${target}/README.md`);
    }
  }
  expectNone(
    pages
      .filter((page) => !page.startsWith('.') && !found.has(page))
      .map((page) => `${page}: no link leads here from README.md`),
  );
});

test('every relative link leads to an existing file, folder, or heading', () => {
  const folders = new Set(files.flatMap((path) => ancestorsOf(path)));
  expectNone(
    pages.flatMap(linksOf).flatMap(({ page, line, target, anchor }) => {
      if (!files.includes(target) && !folders.has(target))
        return [`${page}:${line}: ${target} does not exist`];
      if (anchor === undefined || !target.endsWith('.md') || headingsOf(target).includes(anchor)) return [];
      return [`${page}:${line}: ${target} has no heading #${anchor}`];
    }),
  );
});

test('every page and anchor that the console, the command line, or the rules name exists', () => {
  const named = files
    .filter((path) => /^(services|deploy)\/.*\.(ts|yaml)$/.test(path) && !path.endsWith('.test.ts'))
    .flatMap((path) =>
      [...textOf(path).matchAll(/(?<page>(?:docs\/[\w/-]+|'README)\.md)(?:#(?<anchor>[\w-]+))?/g)].map(
        ({ groups }) => ({
          path,
          page: groups?.['page']?.replace("'", '') ?? '',
          anchor: groups?.['anchor'],
        }),
      ),
    );
  const codes = Object.keys(PROBLEMS).map((anchor) => {
    return { path: 'services/console/ui/pages/rejects.ts', page: 'docs/reference/problems.md', anchor };
  });
  expectNone(
    [...named, ...codes].flatMap(({ path, page, anchor }) => {
      if (!files.includes(page)) return [`${path}: ${page} does not exist`];
      if (anchor === undefined || headingsOf(page).includes(anchor)) return [];
      return [`${path}: ${page} has no heading #${anchor}`];
    }),
  );
});

test('every source file that a page or a comment names exists', () => {
  const isThere = (name: string): boolean => files.some((path) => `/${path}`.endsWith(`/${name}`));
  expectNone(
    files
      .filter((path) => /\.(md|ts|sql|yml)$/.test(path))
      .flatMap((path) =>
        textOf(path)
          .split('\n')
          .map((line, i) => ({ at: `${path}:${i + 1}`, line })),
      )
      .filter(({ at, line }) => at.includes('.md:') || /^\s*(\/?\*|\/\/|--|#)/.test(line))
      .flatMap(({ at, line }) =>
        [...line.matchAll(/`(?:\.\/)?(?<name>[\w/-]+(?:\.[\w-]+)*\.(?:ts|sql))`/g)].flatMap(({ groups }) => {
          const name = groups?.['name'] ?? '';
          return isThere(name) || /^(x|001-name)\./.test(name) ? [] : [`${at}: ${name} does not exist`];
        }),
      ),
  );
});

test('every npm script that a page names is in package.json', () => {
  const { scripts = {} } = manifestOf('');
  expectNone(
    pages.flatMap((page) => {
      const text = textOf(page);
      return [...text.matchAll(/\bnpm (?:run (?:-s )?(?<named>[\w:-]+)|(?<short>start|test)\b)/g)].flatMap(
        (match) => {
          const name = match.groups?.['named'] ?? match.groups?.['short'] ?? '';
          if (scripts[name] !== undefined) return [];
          return [`${page}:${lineAt(text, match.index)}: package.json has no script "${name}"`];
        },
      );
    }),
  );
});

test('the README starts in two commands, and CI runs both', () => {
  const commands = fencedCommands(files.includes('README.md') ? textOf('README.md') : '');
  expect(commands, 'README.md: a fenced sh block starts the product').toContain('npm ci && npm start');
  expect(commands, 'README.md: a fenced sh block runs the tests').toContain('npm test');
  const ci = files.includes('.ci/run') ? textOf('.ci/run') : '';
  expect(ci, '.ci/run: installs as the README says').toMatch(/\bnpm ci\b/);
  expect(ci, '.ci/run: runs the README’s test command').toMatch(/\bnpm (run )?test\b|^tested \w+ test$/m);
});

/** Returns the relative links of a page, except links in code. */
function linksOf(page: string): Link[] {
  if (!files.includes(page)) return [];
  const text = textOf(page).replace(/```[\s\S]*?```|`[^`\n]*`/g, (code) => code.replace(/[^\n]/g, ' '));
  const found = text.matchAll(
    /\]\((?<inline>[^)\s]+)[^)]*\)|^\[[^\]]+\]: (?<named>\S+)|(?:href|src)="(?<html>[^"]+)"/gm,
  );
  return [...found].flatMap(({ groups, index }) => {
    const link = groups?.['inline'] ?? groups?.['named'] ?? groups?.['html'] ?? '';
    if (/^[a-z][a-z+.-]*:/i.test(link)) return [];
    const [path = '', anchor] = link.split('#');
    const target = path === '' ? page : posix.join(posix.dirname(page), decodeURIComponent(path));
    return [{ page, line: lineAt(text, index), target: target.replace(/\/$/, ''), anchor }];
  });
}

/** Returns the anchors that GitHub creates for the headings of a page. */
function headingsOf(page: string): string[] {
  const text = textOf(page).replace(/```[\s\S]*?```/g, '');
  return [...text.matchAll(/^#{1,6} (?<title>.+)$/gm)].map(({ groups }) =>
    (groups?.['title'] ?? '')
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

function ancestorsOf(path: string): string[] {
  const names = path.split('/').slice(0, -1);
  return ['.', ...names.map((_, i) => names.slice(0, i + 1).join('/'))];
}

/** Returns the lines of the fenced `sh` blocks of a page. */
function fencedCommands(text: string): string[] {
  return [...text.matchAll(/^```(?:sh|bash|shell)\n(?<body>[\s\S]*?)^```/gm)].flatMap(({ groups }) =>
    (groups?.['body'] ?? '').split('\n').map((line) => line.trim()),
  );
}
