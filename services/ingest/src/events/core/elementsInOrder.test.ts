/** Elements that are not asked of the schema, as they are in order, beside what the schema says of them. */
import { isUtf8 } from 'node:buffer';
import { validJson } from '@questlog/schemas/fixtures/validJson';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isInOrder, problemsOf, Uuids } from './envelope.ts';
import { scanBody } from './scanBody.ts';

/** Some 20,000 bodies; a million of them in the tier of faults. */
const RUNS = process.env['QUESTLOG_TEST_RUNS'] === 'long' ? 50 : 1;

const SESSION = '7846b5f4-39dd-4381-b200-dbc9f59749ad';
const uuid = fc.constantFrom(
  ...[
    SESSION,
    SESSION.toUpperCase(),
    SESSION.slice(1),
    `${SESSION}0`,
    SESSION.replace('-', '_'),
    '',
    'x',
  ].map((text) => `"${text}"`),
);
const document = fc.constantFrom(
  ...validJson.filter(({ bytes }) => bytes.length < 300).map(({ bytes }) => bytes.toString('latin1')),
);
const numbers = fc.constantFrom(
  '0',
  '1',
  '-1',
  '5.0',
  '5e1',
  '5.5',
  '9007199254740991',
  '9007199254740992',
  '1e400',
);
const other = fc.oneof(
  document,
  numbers,
  fc.constantFrom('null', 'true', '{}', '[]', '""', '7', '"\\ud800"', '"\\u0041"'),
);
const mostly = (likely: fc.Arbitrary<string>): fc.Arbitrary<string> =>
  fc.oneof({ weight: 12, arbitrary: likely }, { weight: 1, arbitrary: other });
const member = (name: string, value: fc.Arbitrary<string>): fc.Arbitrary<string> =>
  mostly(value).map((text) => `"${name}":${text}`);
const sometimes = (name: string, value: fc.Arbitrary<string>) => fc.option(member(name, value), { freq: 2 });
const good = fc.constant(`"${SESSION}"`);
const deep = fc.constantFrom(63, 64, 65).map((levels) => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`);

const element = fc
  .tuple(
    sometimes('sessionId', fc.oneof({ weight: 6, arbitrary: good }, { weight: 1, arbitrary: uuid })),
    sometimes('eventType', fc.constantFrom('"checkpoint"', '""', '"é🎮"', '"a \\"quoted\\" one"')),
    sometimes('buildId', fc.oneof(good, uuid)),
    sometimes('occurredAt', fc.constantFrom('"2026-11-21T12:00:00Z"', '"1969-12-31"', '"yesterday"')),
    sometimes(
      'payload',
      fc.oneof(
        document.map((text) => `{"v":${text}}`),
        deep,
      ),
    ),
    sometimes('sequence', numbers),
    fc.option(fc.constantFrom('"sessionId":null', '"eventType":"again"', '"other":1', '"\\u0070ayload":{}'), {
      freq: 8,
    }),
  )
  .map((members) => `{${members.filter((one) => one !== null).join(',')}}`);
const body = fc
  .array(fc.oneof({ weight: 30, arbitrary: element }, { weight: 1, arbitrary: other }), {
    minLength: 1,
    maxLength: 6,
  })
  .map((elements) =>
    Buffer.from(elements.length === 1 ? elements.join() : `[${elements.join(' , ')}]`, 'latin1'),
  );
const damage = fc.tuple(
  fc.nat(),
  fc.constantFrom(...Buffer.from('"\\{}[],:-+.019eEnulAaZz \n\xff', 'latin1')),
);

test('the schema finds nothing wrong with an element that it is not asked about, whatever is damaged', () => {
  const seen = { inOrder: 0, wrong: 0 };
  fc.assert(
    fc.property(body, fc.array(damage, { maxLength: 2 }), (bytes, damages) => {
      for (const [at, byte] of damages) bytes[at % bytes.length] = byte;
      if (isUtf8(bytes)) expectAgreement(bytes, seen);
    }),
    { numRuns: 5_000 * RUNS },
  );
  expect(Math.min(seen.inOrder, seen.wrong)).toBeGreaterThan(500 * RUNS);
});

test('an element is asked of the schema from the first byte on that is too many', () => {
  const seen = { inOrder: 0, wrong: 0 };
  const around = `{"sessionId":"${SESSION}","eventType":"x","payload":{"a":""}}`;
  for (const more of [0, 1]) {
    const filling = 'a'.repeat(256 * 1024 - around.length + more);
    expectAgreement(Buffer.from(around.replace('""', `"${filling}"`)), seen);
  }
  expect(seen).toEqual({ inOrder: 2, wrong: 2 });
});

/** In order is exactly what the schema and the limits find nothing wrong with. */
function expectAgreement(bytes: Buffer, seen: { inOrder: number; wrong: number }): void {
  const scanned = scanBody(bytes, { maxElements: 500 });
  if (!scanned.ok) return;
  for (const revision of ['A', 'B'] as const) {
    const uuids = new Uuids();
    scanned.elements.forEach((one, index) => {
      const isGood = problemsOf(one, revision, index).length === 0;
      expect(isInOrder(one, revision, uuids)).toBe(isGood);
      seen[isGood ? 'inOrder' : 'wrong'] += 1;
    });
  }
}
