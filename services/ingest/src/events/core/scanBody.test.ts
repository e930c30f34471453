import { describe, expect, test } from 'vitest';
import { elementsRejection, scanBody, scanRequest } from './scanBody.ts';

/** Number of elements of a large body. Smaller in mutation tests, which run these tests once per mutant. */
const MANY = process.env['QUESTLOG_TEST_RUNS'] === 'mutants' ? 10_000 : 1_000_000;

describe('the top level', () => {
  test('takes a single object as one element', () => {
    expect(scan('{"eventType":"a"}')).toMatchObject({
      isArray: false,
      count: 1,
      elements: [{ kind: 'object' }],
    });
  });

  test('takes an array as its elements, in order', () => {
    const { isArray, count, elements } = scan('[{"eventType":"a"},{"eventType":"b"}]');
    expect({ isArray, count }).toEqual({ isArray: true, count: 2 });
    expect(elements.map(({ eventType }) => eventType)).toEqual(['a', 'b']);
  });

  test('takes an empty array as no elements', () => {
    expect(scan(' [ ] ')).toEqual({ ok: true, isArray: true, count: 0, elements: [], unknown: [] });
  });

  test.each([
    ['"a"', 'string'],
    ['-1.5', 'number'],
    ['true', 'boolean'],
    ['false', 'boolean'],
    ['null', 'null'],
    ['{}', 'object'],
  ])('names the kind of %s alone', (text, kind) => {
    expect(scan(text)).toMatchObject({ isArray: false, count: 1, elements: [{ kind }] });
  });

  test('names the kinds of elements that are no objects', () => {
    const kinds = scan('[1, "a", null, [{}], true, {}]').elements.map(({ kind }) => kind);
    expect(kinds).toEqual(['number', 'string', 'null', 'array', 'boolean', 'object']);
  });

  test('spans each element without the space around it', () => {
    const body = ' [ {"a" : 1} ,\n[2 ,3]\t, "x" ] ';
    expect(scan(body).elements.map(({ start, end }) => body.slice(start, end))).toEqual([
      '{"a" : 1}',
      '[2 ,3]',
      '"x"',
    ]);
  });

  test('reads a body inside a larger buffer, and nothing outside of it', () => {
    const around = Buffer.from('"{"eventType":"a"}"}');
    const result = scanBody(around.subarray(1, 18), { maxElements: 1 });
    expect(result).toMatchObject({ ok: true, elements: [{ eventType: 'a', start: 0, end: 17 }] });
    expect(scanBody(around.subarray(1, 17), { maxElements: 1 }).ok).toBe(false);
    expect(scanBody(around.subarray(1, 16), { maxElements: 1 }).ok).toBe(false);
  });
});

describe('the cap', () => {
  test('limits the collected elements, but counts all', () => {
    const result = scan(`[${'{},'.repeat(MANY - 1)}{}]`, 500);
    expect(result).toMatchObject({ count: MANY });
    expect(result.elements.length).toBe(500);
  });

  test('collects all elements at the limit', () => {
    expect(scan('[1,2,3]', 3).elements.length).toBe(3);
    expect(scan('[1,2,3]', 0)).toMatchObject({ count: 3, elements: [] });
  });

  test('validates the elements above it', () => {
    expect(scanBody(Buffer.from('[{},{},{"a":01}]'), { maxElements: 1 })).toMatchObject({
      ok: false,
      offset: 13,
    });
  });
});

describe('a syntax error', () => {
  test.each([
    ['', 0],
    ['{"a":1', 6],
    ['{"a":"b', 7],
    ['{"a" 1}', 5],
    ['{"eventType" 1}', 13],
    ['{"payload":{"a":tru}}', 19],
    ['[1,2,]', 5],
    ['{"a":1,}', 7],
    ['{}x', 2],
    ['"a\nb"', 2],
    ['{"eventType":"a\\x"}', 16],
    ['["\\x"]', 3],
    ['\ufeff{}', 0],
    ['[-]', 2],
  ])('in %j is reported with its offset', (text, offset) => {
    expect(scanBody(Buffer.from(text), { maxElements: 9 })).toMatchObject({
      ok: false,
      reason: 'syntax',
      offset,
    });
  });

  test('is found in every prefix of a batch', () => {
    const element =
      '{"sessionId":"abcdefgh-é\\n","eventType":"abcdefgh","occurredAt":"a","payload":{"a":[-1.5e3,true]}}';
    const whole = Buffer.from(`[${element},${element}]`);
    for (let length = 0; length < whole.length; length++) {
      expect(scanBody(whole.subarray(0, length), { maxElements: 9 })).toMatchObject({
        ok: false,
        offset: length,
      });
    }
    expect(scanBody(whole, { maxElements: 9 })).toMatchObject({ ok: true, count: 2 });
  });

  test('never quotes the body', () => {
    for (const text of ['{"secret":secret}', 'secret', '["secret\\x"]', '{"secret" secret}', '{}secret']) {
      expect(JSON.stringify(scanBody(Buffer.from(text), { maxElements: 9 }))).not.toContain('secret');
    }
  });
});

test('reports the first ten unknown names once each, with their first element', () => {
  const body = '[{"a":1,"eventType":"x"},{"a":2,"a":3,"\\u0062~/":{"c":1},"payload":{"d":1}}]';
  expect(scan(body).unknown).toEqual([
    { index: 0, pointer: '/a' },
    { index: 1, pointer: '/b~0~1' },
  ]);
  const many = Array.from({ length: 30 }, (_, n) => ({ [`f${n}`]: n }));
  expect(scan(JSON.stringify(many)).unknown).toEqual(
    Array.from({ length: 10 }, (_, n) => ({ index: n, pointer: `/f${n}` })),
  );
  expect(scan(`{"${'x'.repeat(1000)}":1}`).unknown).toEqual([{ index: 0, pointer: `/${'x'.repeat(100)}` }]);
  expect(scan('{"eventType":"x"}').unknown).toEqual([]);
});

test.each([
  ['{', 'A', 'invalid_json'],
  ['[]', 'A', 'empty_batch'],
  ['3', 'A', 'invalid_body'],
  ['null', 'B', 'invalid_body'],
  [`[${'{},'.repeat(500)}{}]`, 'A', 'batch_too_large'],
  [`[${'{},'.repeat(200)}{}]`, 'B', 'batch_too_large'],
] as const)('rejects a request of %s in revision %s as a whole: %s', (text, revision, code) => {
  expect(() => scanRequest(Buffer.from(text), revision)).toThrow(expect.objectContaining({ code }));
});

test.each([
  ['{}', 1],
  ['[3]', 1],
  [`[${'{},'.repeat(499)}{}]`, 500],
])('checks the elements of %s one by one: %i', (text, count) => {
  expect(scanRequest(Buffer.from(text), 'A').elements).toHaveLength(count);
});

test('recognizes a known name with escapes', () => {
  expect(scan('[{"event\\u0054ype":"e","other":1}]').unknown).toEqual([{ index: 0, pointer: '/other' }]);
});

test('chooses 400 before 413 before 404, and returns every problem', () => {
  const problems = (['unknown_session', 'event_too_large', 'field_required'] as const).map((code, index) => {
    return { index, pointer: '/a', code, detail: 'why' };
  });
  const codes = [3, 2, 1].map((count) => elementsRejection(problems.slice(0, count)));
  expect(codes.map(({ code }) => code)).toEqual(['invalid_elements', 'event_too_large', 'unknown_session']);
  expect(codes).toMatchObject([3, 2, 1].map((count) => ({ errors: problems.slice(0, count) })));
  expect(codes.map(({ message }) => message.slice(0, 28))).toEqual([
    '3 of the elements are invali',
    '2 of the elements are invali',
    '1 of the elements is invalid',
  ]);
});

test('reports a forbidden build before an unknown session, and after invalid fields', () => {
  const codes = ['unknown_session', 'build_not_allowed', 'event_too_large'] as const;
  const problems = codes.map((code, index) => ({ index, pointer: '/a', code, detail: 'why' }));
  expect(elementsRejection(problems).code).toBe('event_too_large');
  const some = problems.slice(0, 2);
  expect(elementsRejection(some)).toMatchObject({ code: 'build_not_allowed', errors: some });
});

function scan(body: string, maxElements = 500) {
  const result = scanBody(Buffer.from(body), { maxElements });
  if (!result.ok) throw new Error(`refused at ${result.offset}: ${result.detail}`);
  return result;
}
