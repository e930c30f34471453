/**
 * Tests random documents with random damage. The scanner must accept the same documents as the engine, and find the same values.
 */
import { isUtf8 } from 'node:buffer';
import { validJson } from '@questlog/schemas/fixtures/validJson';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { scanBody } from './scanBody.ts';
import type { ScannedElement } from './scanElement.ts';

/** Factor for the number of runs: 10 in the tier of faults, and a quarter in mutation tests. */
const TIMES = { long: 10, mutants: 0.25 }[process.env['QUESTLOG_TEST_RUNS'] ?? ''] ?? 1;

const STRINGS = ['sessionId', 'buildId', 'eventType', 'occurredAt'] as const;
const ENVELOPE = [...STRINGS, 'payload', 'sequence'] as const;

/** JSON text with random whitespace and escapes. */
const space = fc.oneof(
  { weight: 4, arbitrary: fc.constant('') },
  { weight: 1, arbitrary: fc.string({ unit: fc.constantFrom(' ', '\t', '\n', '\r'), maxLength: 5 }) },
);
const hex = fc
  .integer({ min: 0, max: 0xffff })
  .chain((code) =>
    fc.constantFrom(code.toString(16).padStart(4, '0'), code.toString(16).toUpperCase().padStart(4, '0')),
  );
const character = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 9 }).map(escapeMinimally),
  },
  { weight: 2, arbitrary: fc.string({ unit: 'binary', minLength: 1, maxLength: 3 }).map(escapeMinimally) },
  { weight: 1, arbitrary: fc.constantFrom('\\"', '\\\\', '\\/', '\\b', '\\f', '\\n', '\\r', '\\t') },
  { weight: 1, arbitrary: hex.map((digits) => `\\u${digits}`) },
);
const string = fc.array(character, { maxLength: 6 }).map((parts) => `"${parts.join('')}"`);
const digits = fc.oneof(
  fc.nat().map(String),
  fc.bigInt({ min: 0n, max: 10n ** 40n }).map(String),
  fc.constantFrom('0', '00', '12345678'),
);
const number = fc
  .tuple(
    fc.constantFrom('', '-'),
    digits.map((text) => text.replace(/^0+(?=.)/, '')),
    fc.option(digits, { nil: undefined }),
    fc.option(fc.tuple(fc.constantFrom('e', 'E', 'e+', 'E-'), digits), { nil: undefined }),
  )
  .map(
    ([sign, whole, part, power]) =>
      `${sign}${whole}${part === undefined ? '' : `.${part}`}${power?.join('') ?? ''}`,
  );
const { value } = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    number,
    string,
    fc.constantFrom('true', 'false', 'null', '{}', '[]', '[ ]', '{\n}'),
    fc.array(spaced(tie('value')), { maxLength: 5 }).map((items) => `[${items.join(',')}]`),
    fc
      .array(fc.tuple(spaced(string), spaced(tie('value'))), { maxLength: 5 })
      .map((members) => `{${members.map(([name, item]) => `${name}:${item}`).join(',')}}`),
  ),
}));
const fieldName = fc
  .constantFrom(...ENVELOPE)
  .chain((name) =>
    fc
      .array(fc.boolean(), { minLength: name.length, maxLength: name.length })
      .chain((escaped) =>
        fc.constantFrom(
          `"${name}"`,
          `"${name}"`,
          `"${[...name].map((c, i) => (escaped[i] === true ? `\\u00${c.charCodeAt(0).toString(16)}` : c)).join('')}"`,
        ),
      ),
  );
const member = fc.record({
  name: fc.oneof({ weight: 4, arbitrary: fieldName }, { weight: 1, arbitrary: string }),
  value: fc.oneof({ weight: 2, arbitrary: string }, { weight: 1, arbitrary: value }),
  around: fc.tuple(space, space, space, space),
});
const element = fc.array(member, { maxLength: 7 }).map((members) => ({
  members,
  text: `{${members.map(written).join(',')}}`,
}));
const document = fc.oneof(
  value,
  element.map(({ text }) => text),
  fc.array(element, { maxLength: 4 }).map((elements) => `[${elements.map(({ text }) => text).join(',')}]`),
);

test('accepts every document, and finds the engine’s value in each element’s span', () => {
  fc.assert(
    fc.property(fc.array(spaced(value), { maxLength: 6 }), space, (items, outside) => {
      const body = Buffer.from(`${outside}[${items.join(',')}]${outside}`);
      const { elements, count } = accepted(body);
      expect(count).toBe(items.length);
      expect(elements.map((found) => spanOf(body, found.start, found.end))).toEqual(items.map(trimmed));
    }),
    { numRuns: 100 * TIMES },
  );
});

test('finds fields, repetitions, lone surrogates, and payload bytes as the engine does', () => {
  fc.assert(
    fc.property(fc.array(element, { minLength: 1, maxLength: 5 }), fc.boolean(), (drawn, isAlone) => {
      const elements = isAlone ? drawn.slice(0, 1) : drawn;
      const texts = elements.map(({ text }) => text);
      const body = Buffer.from(isAlone ? texts.join('') : `[${texts.join(' , ')}]`);
      const result = accepted(body);
      expect(result.isArray).toBe(!isAlone);
      expect(result.elements.length).toBe(elements.length);
      elements.forEach(({ members }, i) => {
        const found = result.elements[i];
        if (found !== undefined) expectFields(found, members, body);
      });
    }),
    { numRuns: 200 * TIMES },
  );
});

test('accepts a document with damaged bytes exactly when the engine does', () => {
  const damage = fc.record({
    kind: fc.constantFrom('replace', 'insert', 'delete', 'cut', 'copy'),
    at: fc.nat(),
    length: fc.integer({ min: 1, max: 4 }),
    byte: fc.oneof(fc.constantFrom(...Buffer.from('"\\{}[],:-+.0123eEutfn \n\t\0')), fc.nat({ max: 255 })),
  });
  const original = fc.oneof(
    document.map((text) => Buffer.from(text)),
    fc.constantFrom(...validJson.filter(({ bytes }) => bytes.length < 2000).map(({ bytes }) => bytes)),
  );
  let accepts = 0;
  let refusals = 0;
  fc.assert(
    fc.property(original, fc.array(damage, { minLength: 1, maxLength: 3 }), (bytes, damages) => {
      const body = damages.reduce(damaged, bytes);
      const expected = engineAccepts(body);
      expect(isUtf8(body) && scanBody(body, { maxElements: 2 }).ok).toBe(expected);
      if (expected) accepts++;
      else refusals++;
    }),
    { numRuns: 2_000 * TIMES },
  );
  // The test needs both damaged documents that are valid and damaged documents that are invalid.
  expect(Math.min(accepts, refusals)).toBeGreaterThan(100 * TIMES);
});

interface Damage {
  readonly kind: string;
  readonly at: number;
  readonly length: number;
  readonly byte: number;
}

function damaged(bytes: Buffer, { kind, at, length, byte }: Damage): Buffer {
  const i = bytes.length === 0 ? 0 : at % bytes.length;
  const before = bytes.subarray(0, i);
  if (kind === 'replace') return Buffer.concat([before, Buffer.of(byte), bytes.subarray(i + 1)]);
  if (kind === 'insert') return Buffer.concat([before, Buffer.of(byte), bytes.subarray(i)]);
  if (kind === 'delete') return Buffer.concat([before, bytes.subarray(i + length)]);
  if (kind === 'cut') return before;
  return Buffer.concat([before, bytes.subarray(i, i + length), bytes.subarray(i)]);
}

function expectFields(
  found: ScannedElement,
  members: readonly { readonly name: string; readonly value: string }[],
  body: Buffer,
): void {
  const named = members.map(({ name, value: text }) => ({ name: JSON.parse(name), text }));
  for (const field of STRINGS) {
    const last = named.findLast(({ name }) => name === field);
    expect(found[field]).toEqual(last === undefined ? undefined : expectedString(last.text));
  }
  const sequence = named.findLast(({ name }) => name === 'sequence');
  expect(found.sequence).toEqual(sequence === undefined ? undefined : expectedNumber(sequence.text));
  const payload = named.findLast(({ name }) => name === 'payload');
  expect(spanOf(body, found.payloadStart, found.payloadEnd)).toBe(payload?.text ?? '');
  expect(found.payloadKind).toBe(payload === undefined ? undefined : kindOf(JSON.parse(payload.text)));
  const repeated = ENVELOPE.filter((field) => named.filter(({ name }) => name === field).length > 1);
  expect(found.repeated.toSorted()).toEqual(repeated.toSorted());
  const lone = STRINGS.filter((field) =>
    named.some(
      ({ name, text }) => name === field && text.startsWith('"') && !JSON.parse(text).isWellFormed(),
    ),
  );
  expect(found.loneSurrogate.toSorted()).toEqual(lone.toSorted());
}

function expectedString(text: string): unknown {
  const parsed: unknown = JSON.parse(text);
  return typeof parsed === 'string' ? parsed : { kind: kindOf(parsed) };
}

function expectedNumber(text: string): unknown {
  const parsed: unknown = JSON.parse(text);
  return typeof parsed === 'number' ? parsed : { kind: kindOf(parsed) };
}

function accepted(body: Buffer) {
  const result = scanBody(body, { maxElements: 500 });
  if (!result.ok) throw new Error(`refused at ${result.offset}: ${result.detail}`);
  return result;
}

function engineAccepts(body: Buffer): boolean {
  if (!isUtf8(body)) return false;
  try {
    JSON.parse(body.toString());
    return true;
  } catch {
    return false;
  }
}

function spanOf(body: Buffer, start: number, end: number): string {
  return body.toString('utf8', start, end);
}

function spaced(text: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc.tuple(space, text, space).map((parts) => parts.join(''));
}

function written(drawn: { name: string; value: string; around: readonly string[] }): string {
  const [beforeName, behindName, beforeValue, behindValue] = drawn.around;
  return `${beforeName}${drawn.name}${behindName}:${beforeValue}${drawn.value}${behindValue}`;
}

/** Removes only the whitespace of JSON. `trim` would remove other characters too. */
function trimmed(text: string): string {
  return text.replace(/^[ \t\n\r]+|[ \t\n\r]+$/g, '');
}

function escapeMinimally(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

function kindOf(parsed: unknown): string {
  if (parsed === null) return 'null';
  return Array.isArray(parsed) ? 'array' : typeof parsed;
}
