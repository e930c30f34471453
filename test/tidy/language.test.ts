/** Checks that prose uses plain words: comments, messages, test titles, and Markdown. */
import { expect, test } from 'vitest';
import { measureLanguage } from './language/measure.ts';
import { OPENINGS, PHRASES } from './language/phrases.ts';
import { proseOf, textsOf } from './language/prose.ts';
import { projectFiles, textOf } from './projectFiles.ts';
import { expectNone } from './violations.ts';

const MAX_OPENINGS_PER_1000_LINES = 3;
const MAX_PHRASES_PER_1000_WORDS = 0.3;
/** Applied migrations and released schemas cannot change. The lists of phrases contain the phrases. */
const EXEMPT = /^(deploy\/clickhouse\/|schemas\/released\/|test\/tidy\/language|package-lock)/;
const PROSE = /\.(m?ts|js|mjs|md|sql|ya?ml|sh)$|Dockerfile$/;

test('comments, messages, test titles, and pages use plain words', () => {
  const files = projectFiles().filter((path) => PROSE.test(path) && !EXEMPT.test(path));
  const figures = measureLanguage(files.map((path) => ({ path, text: textOf(path) })));
  const { openings, commentPhrases, textPhrases, pagePhrases, findings } = figures;
  const isPlain =
    openings <= MAX_OPENINGS_PER_1000_LINES &&
    Math.max(commentPhrases, textPhrases, pagePhrases) <= MAX_PHRASES_PER_1000_WORDS;
  expectNone(
    isPlain ? [] : [JSON.stringify({ openings, commentPhrases, textPhrases, pagePhrases }), ...findings],
  );
});

test.each(OPENINGS)('the opening $pattern separates its two examples', ({ pattern, bad, good }) => {
  expect([bad, good].map((sentence) => pattern.test(sentence))).toEqual([true, false]);
});

test.each(PHRASES)('the phrase $pattern separates its two examples', ({ pattern, bad, good }) => {
  expect([bad, good].map((sentence) => sentence.search(pattern) >= 0)).toEqual([true, false]);
});

test('code, tables, quotations, headings, and questions are not prose', () => {
  const page = [
    '# Whoever',
    'Run `whoever` and read “whoever”. Whoever asks?',
    '```',
    'whoever',
    '```',
    '| whoever |',
    '> whoever',
  ].join('\n');
  expect(proseOf('a.md', page).sentences.map(({ text }) => text)).toEqual(['Run code and read quotation.']);
});

test('a comment over several lines is one comment, and the words of a tag are a sentence', () => {
  const source =
    '/**\n * Returns the row.\n * @throws Whoever.\n */\n// One line,\n// and one more.\ncode(); // not read\n';
  expect(proseOf('a.ts', source).sentences).toEqual([
    { line: 1, text: 'Returns the row.' },
    { line: 1, text: 'throws Whoever.' },
    { line: 5, text: 'One line, and one more.' },
  ]);
});

test('messages and test titles of five words or more are texts', () => {
  const literal = '`$' + '{name}: must be less than ten`';
  const source = `test('dead-letters a record that does not decode', run);
import x from 'a/b';
throw new Error(${literal});
`;
  expect(textsOf(source)).toEqual([
    { line: 1, text: 'dead-letters a record that does not decode' },
    { line: 3, text: 'value: must be less than ten' },
  ]);
});
