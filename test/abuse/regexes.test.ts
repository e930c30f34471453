/** Tests that each regular expression of the product needs time linear in the length of the text. */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { messageOf } from '@questlog/runtime/process/errors';
import { beforeAll, expect, test } from 'vitest';
import { installPackages } from '../npmPackages.ts';
import { parseSources } from '../tidy/sources.ts';
import { recordFigure } from './figures.ts';

/** Package that only this test installs, because its binaries for all systems are large. */
const PACKAGE = 'recheck@4.5.0';
const MINUTES = 20;
/** Options of recheck. A search that ends because of a time limit on a busy machine can report a linear expression as polynomial. */
const WITHOUT_TIME_LIMITS = { timeout: null, incubationTimeout: null, attackTimeout: null, randomSeed: 1 };

interface Verdict {
  readonly status: 'safe' | 'vulnerable' | 'unknown';
  readonly complexity?: { readonly summary: string };
}
type Check = (source: string, flags: string, of: object) => Verdict;

const sources = [...parseSources().values()].filter(
  ({ path }) =>
    /^(schemas|services)\//.test(path) && !/\.test\.ts$|[./](testing|contract|fixtures)/.test(path),
);
/** Expressions that are not linear: start of the file's path, start of the expression, and the reason why the expression is harmless. */
const HARMLESS: readonly (readonly [string, string, string])[] = [
  ['services/cli/', '/', 'an operator types the text'],
  ['services/console/ui/', '/', 'in an operator’s browser, over figures of the product'],
  [
    'services/runtime/src/clickhouse/chdb/http/statement.ts',
    '/\\b(?:FORMAT',
    'who asks may have the engine work',
  ],
  [
    'services/runtime/src/clickhouse/chdb/http/statement.ts',
    '/^(.*?)(?: SETTINGS',
    'the engine prints the text',
  ],
  [
    'services/ingest/src/rejections/core/offendingPart.ts',
    '/("[^"]{0,64}(?:token',
    'it goes back over 64 characters',
  ],
];

let check: Check | undefined;

beforeAll(() => {
  try {
    const folder = installPackages('questlog-recheck', [PACKAGE]);
    process.env['RECHECK_SYNC_BACKEND'] = 'pure';
    check = createRequire(join(folder, 'package.json'))('recheck').checkSync;
  } catch (error) {
    console.warn(`skipped: regular expressions cannot be judged here: ${messageOf(error).split('\n')[0]}`);
  }
});

test('no regular expression is built at run time, because it could not be checked', () => {
  const made = sources.flatMap(({ path, uses }) =>
    uses.filter(({ text }) => /^new RegExp/.test(text)).map(({ line }) => `${path}:${line}`),
  );
  expect(made).toEqual([]);
});

test(
  'each regular expression is linear, by proof or by search',
  () => {
    if (check === undefined) return;
    const judge = check;
    const texts = sources.flatMap(({ path, patterns, literals }) => [
      ...patterns.map(({ text, line }) => ({ text, where: `${path}:${line}` })),
      // Patterns of TypeBox schemas.
      ...literals
        .filter(({ text }) => /^\^.+\$$/.test(text))
        .map(({ text, line }) => ({ text: `/${text}/`, where: `${path}:${line}` })),
    ]);
    const unsafe: string[] = [];
    const isHarmless = ({ text, where }: { text: string; where: string }): boolean =>
      HARMLESS.some(([path, begin]) => where.startsWith(path) && text.startsWith(begin));
    const wanted = texts.filter((one) => !isHarmless(one));
    const judged = [...new Map(wanted.map((one) => [one.text, one])).values()];
    for (const { text, where } of judged) {
      const [, source = '', flags = ''] = /^\/(.*)\/([a-z]*)$/s.exec(text) ?? [];
      const { status, complexity } = judge(source, flags, WITHOUT_TIME_LIMITS);
      if (status !== 'safe') unsafe.push(`${where}: ${text} is ${complexity?.summary ?? status}`);
    }
    expect(judged.length).toBeGreaterThan(40);
    expect(unsafe).toEqual([]);
    recordFigure('Texts that make a regular expression slow', {
      tried: `${judged.length} expressions, analyzed by recheck`,
      held: 'every expression needs linear time',
    });
  },
  MINUTES * 60_000,
);
