/** Those of `survivors.ts` that are of what reads requests: the ingest's own `core/`. */
import { ALWAYS_THERE, alike, SAME_BY_ANOTHER_WAY, type Survivors } from './reasons.ts';

const INGEST = 'services/ingest/src/core';

export const SCANNER_SURVIVORS: readonly Survivors[] = [
  ...alike(`${INGEST}/occurredAt.ts`, SAME_BY_ANOTHER_WAY, [
    'if (timeEnd === INVALID) return',
    'if (Number.isSafeInteger(approximate)',
    'if (text.length < 10 ||',
    'if (Number.isSafeInteger(total)',
    'return i < text.length ? text.charCodeAt(i)',
  ]),
  {
    file: `${INGEST}/fieldProblems.ts`,
    line: 'const isOneKind =',
    reason: 'of a status other than 400 the code of the first problem is told either way',
  },
  ...alike(`${INGEST}/fieldProblems.ts`, 'nobody asks for a verdict on a body without a problem', [
    'const code = status === 400',
  ]),
  {
    file: `${INGEST}/fieldProblems.ts`,
    line: "if (error.keyword === 'required' &&",
    reason: 'only a field that is required has such a list',
  },
  {
    file: `${INGEST}/newestFirst.ts`,
    line: 'export function newestFirstClause',
    reason: 'SQL is judged by the tests on ClickHouse',
  },
  {
    file: `${INGEST}/newestFirst.ts`,
    line: "'latin1').toString('base64url')",
    reason: 'digits and a UUID are the same bytes as UTF-8',
  },
  ...alike(`${INGEST}/newestFirst.ts`, 'a text has both parts of a place, or none', [
    'CURSOR_FORMAT.exec(Buffer.from(',
    'return millis === undefined || id === undefined',
  ]),
  ...alike(`${INGEST}/scanObject.ts`, 'what is of another kind has no first member to read', [
    'if (json.at(i) === OPEN_OBJECT) {',
    'if (json.at(i) !== OPEN_ARRAY) return;',
    'for (let element = 0; element < MAX_ELEMENTS',
  ]),
  { file: `${INGEST}/scanObject.ts`, line: 'boolean: true', reason: 'a schema asks for the kind alone' },
  {
    file: `${INGEST}/scanValue.ts`,
    line: 'while (byte <= SPACE &&',
    reason:
      'for the engine: the table of spaces says the same, and what is behind the end is no byte of JSON',
  },
  ...alike(
    `${INGEST}/scanValue.ts`,
    'for the engine: what is read behind the end is no byte of JSON either',
    [
      'return i < this.end ? (this.body[i]',
      'while (i < end && IS_SPACE',
      'let byte = i < end ?',
      'byte = i < end ?',
      'byte = ++i < end ?',
      'const last = Math.min(word.length',
      'while (k < last &&',
    ],
  ),
  ...alike(`${INGEST}/scanValue.ts`, SAME_BY_ANOTHER_WAY, [
    'while (i < end && IS_PLAIN_ASCII',
    'if (i > lastQuote) return',
    'if (depth > deepest)',
    'if (!body.subarray(start, end).includes(BACKSLASH))',
  ]),
  ...alike(`${INGEST}/scanValue.ts`, 'of the end of a body it is said that it comes too early', [
    "detail = '';",
    "return this.fail(this.end, '')",
  ]),
  {
    file: `${INGEST}/scanValue.ts`,
    line: 'outer ??= [];',
    reason: 'what lies below all that was put in is never taken out',
  },
  { file: `${INGEST}/scanValue.ts`, line: '(outer?.pop() ??', reason: ALWAYS_THERE },
  {
    file: `${INGEST}/cursorCipher.ts`,
    line: 'export const OVERHEAD_BYTES =',
    reason:
      'the seal of a test is as long as this says; with the real one the end-to-end tests of the stream notice it',
  },
  ...alike(`${INGEST}/unknownFields.ts`, 'a pointer to a field has a last step', [
    "const name = path.at(-1) ?? ''",
    "const [name = '', inside]",
    "nearestName(other.at(-1) ?? ''",
  ]),
  ...alike(`${INGEST}/unknownFields.ts`, 'what is asked of a schema is an object, or is not there', [
    "if (typeof value !== 'object' || value === null || !Object.hasOwn",
    "return typeof member === 'object' && member",
  ]),
  {
    file: `${INGEST}/unknownFields.ts`,
    line: 'if (next.length > MAX_BYTES)',
    reason: 'a header of just so many bytes names one field less',
  },
];
