/** Survivors in the code that parses requests, in ingest's own `core/`. Part of `survivors.ts`. */
import { ALWAYS_DEFINED, SLOWER_PATH, type Survivors, sharing } from './reasons.ts';

const HTTP = 'services/runtime/src/http/core';

export const SCANNER_SURVIVORS: readonly Survivors[] = [
  ...sharing(`${HTTP}/occurredAt.ts`, SLOWER_PATH, [
    'if (timeEnd === INVALID) return',
    'if (Number.isSafeInteger(approximate)',
    'if (text.length < 10 ||',
    'if (Number.isSafeInteger(total)',
    'return i < text.length ? text.charCodeAt(i)',
  ]),
  {
    file: `${HTTP}/fieldProblems.ts`,
    line: 'const isOneKind =',
    reason: 'for a status other than 400, the response has the code of the first problem in both cases',
  },
  ...sharing(`${HTTP}/fieldProblems.ts`, 'no caller passes a body without a problem', [
    'const code = status === 400',
  ]),
  {
    file: `${HTTP}/fieldProblems.ts`,
    line: "if (error.keyword === 'required' &&",
    reason: 'only an error about a required field has such a list',
  },
  {
    file: `${HTTP}/newestFirst.ts`,
    line: 'export function newestFirstClause',
    reason: 'the tests on ClickHouse check the SQL',
  },
  {
    file: `${HTTP}/newestFirst.ts`,
    line: "'latin1').toString('base64url')",
    reason: 'digits and UUIDs have the same bytes in UTF-8',
  },
  ...sharing(`${HTTP}/newestFirst.ts`, 'a text contains both parts of a cursor or neither', [
    'CURSOR_FORMAT.exec(Buffer.from(',
    'return millis === undefined || id === undefined',
  ]),
  ...sharing(`${HTTP}/scanObject.ts`, 'a value of another kind has no first member to read', [
    'if (json.at(i) === OPEN_OBJECT) {',
    'if (json.at(i) !== OPEN_ARRAY) return;',
    'for (let element = 0; element < MAX_ELEMENTS',
  ]),
  { file: `${HTTP}/scanObject.ts`, line: 'boolean: true', reason: 'a schema checks only the kind' },
  {
    file: `${HTTP}/scanValue.ts`,
    line: 'while (byte <= SPACE &&',
    reason:
      'for the JavaScript engine: the table of spaces has the same result, and a byte after the end is not JSON',
  },
  ...sharing(`${HTTP}/scanValue.ts`, 'for the JavaScript engine: a byte after the end is not JSON', [
    'return i < this.end ? (this.body[i]',
    'while (i < end && IS_SPACE',
    'let byte = i < end ?',
    'byte = i < end ?',
    'byte = ++i < end ?',
    'const last = Math.min(word.length',
    'while (k < last &&',
  ]),
  ...sharing(`${HTTP}/scanValue.ts`, SLOWER_PATH, [
    'while (i < end && IS_PLAIN_ASCII',
    'if (i > lastQuote) return',
    'if (depth > deepest)',
    'if (!body.subarray(start, end).includes(BACKSLASH))',
  ]),
  ...sharing(`${HTTP}/scanValue.ts`, 'the error of a truncated body only says that the end is unexpected', [
    "detail = '';",
    "return this.fail(this.end, '')",
  ]),
  {
    file: `${HTTP}/scanValue.ts`,
    line: 'outer ??= [];',
    reason: 'the element below all pushed elements is never popped',
  },
  { file: `${HTTP}/scanValue.ts`, line: '(outer?.pop() ??', reason: ALWAYS_DEFINED },
  {
    file: 'services/runtime/src/cursors/core/cursorCipher.ts',
    line: 'export const OVERHEAD_BYTES =',
    reason:
      'the cipher of a test uses this length; the end-to-end tests of linked events detect the mutant with the real cipher',
  },
  ...sharing(`${HTTP}/unknownFields.ts`, 'a pointer to a field has a last segment', [
    "const name = path.at(-1) ?? ''",
    "const [name = '', inside]",
    "nearestName(other.at(-1) ?? ''",
  ]),
  ...sharing(`${HTTP}/unknownFields.ts`, 'the looked-up part of a schema is an object or undefined', [
    "if (typeof value !== 'object' || value === null || !Object.hasOwn",
    "return typeof member === 'object' && member",
  ]),
  {
    file: `${HTTP}/unknownFields.ts`,
    line: 'if (next.length > MAX_BYTES)',
    reason: 'a header of exactly the maximum size names one field less',
  },
];
