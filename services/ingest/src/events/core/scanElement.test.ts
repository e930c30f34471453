import { describe, expect, test } from 'vitest';
import { scanBody } from './scanBody.ts';
import type { ScannedElement } from './scanElement.ts';

/** Size of large values. Smaller in mutation tests, which run these tests once per mutant. */
const MANY = process.env['QUESTLOG_TEST_RUNS'] === 'mutants' ? 10_000 : 1_000_000;

describe('the fields of the envelope', () => {
  test('are found in any order, with any space', () => {
    const body =
      '{ "payload" :{"a":[1]} ,"occurredAt":\n"t", "buildId":"b","sessionId" : "s","eventType":"e" }';
    const element = only(body);
    expect(element).toMatchObject({ sessionId: 's', buildId: 'b', eventType: 'e', occurredAt: 't' });
    expect(body.slice(element.payloadStart, element.payloadEnd)).toBe('{"a":[1]}');
  });

  test('are undefined if they are omitted', () => {
    const element = only('{}');
    expect(element).toMatchObject({ payloadKind: undefined, payloadStart: 0, payloadEnd: 0, repeated: [] });
    expect([
      element.sessionId,
      element.buildId,
      element.eventType,
      element.occurredAt,
      element.sequence,
    ]).toEqual(Array.from({ length: 5 }, () => undefined));
  });

  test('are recognized by names with escapes', () => {
    const escaped = [...'occurredAt'].map((c) => `\\u00${c.charCodeAt(0).toString(16)}`).join('');
    const element = only(`{"event\\u0054ype":"e","\\u0073essionId":"s","pa\\u0079load":{},"${escaped}":"t"}`);
    expect(element).toMatchObject({ eventType: 'e', sessionId: 's', payloadKind: 'object', occurredAt: 't' });
  });

  test.each([
    ['7', 7],
    ['-0.5e1', -5],
    ['9007199254740991', 9_007_199_254_740_991],
    ['1e400', Number.POSITIVE_INFINITY],
    ['"7"', { kind: 'string' }],
    ['[7]', { kind: 'array' }],
    ['{}', { kind: 'object' }],
    ['null', { kind: 'null' }],
    ['true', { kind: 'boolean' }],
  ])('have the number of a sequence of %s, or its kind', (text, sequence) => {
    expect(only(`{"sequence":${text},"eventType":"e"}`)).toMatchObject({ sequence, eventType: 'e' });
    expect(only(`{"\\u0073equence": ${text} }`)).toMatchObject({ sequence });
  });

  test('are not mistaken for names that are longer, shorter, in another case or inside a payload', () => {
    const element = only(
      '{"eventTyp":"a","eventTypes":"b","EventType":"c","eventtype":"d","eventType ":"e","\\neventType":"f",' +
        '"\\\\u0065ventType":"g","":"h","s":"i","payload2":{},"sequenc":1,"sequences":2,"x":{"eventType":"j","payload":{}}}',
    );
    expect(element).toMatchObject({ eventType: undefined, sessionId: undefined, payloadKind: undefined });
    expect(element.sequence).toBeUndefined();
  });

  test.each([
    ['null', 'null'],
    ['0', 'number'],
    ['false', 'boolean'],
    ['[1,[2]]', 'array'],
    ['{"a":"b"}', 'object'],
  ])('have the kind of %s in place of a string', (text, kind) => {
    const element = only(`{"sessionId":${text},"buildId":${text},"eventType":${text},"occurredAt":${text}}`);
    for (const field of ['sessionId', 'buildId', 'eventType', 'occurredAt'] as const) {
      expect(element[field]).toEqual({ kind });
    }
  });

  test.each(['null', '1', '"{}"', 'true', '[{}]'])(
    'have the span and the kind of a payload that is %s',
    (text) => {
      const body = `{"payload": ${text} }`;
      const element = only(body);
      expect(element.payloadKind).toBe(kindOf(JSON.parse(text)));
      expect(body.slice(element.payloadStart, element.payloadEnd)).toBe(text);
    },
  );

  test.each(['', 'a', 'é', '日本', '😀', 'a"b\\c/d\b\f\n\r\t\u0000', '\u2028', '\ufeff', '__proto__'])(
    'decode %j as JSON.parse does',
    (text) => {
      expect(only(`{"eventType":${JSON.stringify(text)}}`).eventType).toBe(text);
      const asEscapes = [...Array(text.length).keys()].map(
        (i) => `\\u${text.charCodeAt(i).toString(16).padStart(4, '0')}`,
      );
      expect(only(`{"eventType":"${asEscapes.join('')}"}`).eventType).toBe(text);
    },
  );

  test('decode an eventType of megabytes', () => {
    const text = 'ab\u00e9"'.repeat(MANY);
    expect(only(JSON.stringify({ eventType: text })).eventType).toBe(text);
  });

  test('are not mixed up between elements with the same prefix', () => {
    const types = [
      'ab',
      'abc',
      'ab',
      '',
      'a',
      'abd',
      'abc',
      'a',
      '',
      'a\\u0062',
      'ab\u00e9',
      'ab',
      'ab[',
      'a]',
    ];
    const body = JSON.stringify(
      types.map((eventType) => ({ eventType, sessionId: `${eventType}-`, occurredAt: 'ab' })),
    );
    const { elements } = scan(body);
    expect(elements.map(({ eventType }) => eventType)).toEqual(types);
    expect(elements.map(({ sessionId }) => sessionId)).toEqual(types.map((type) => `${type}-`));
  });
});

describe('a repeated field', () => {
  test('is reported once, and its last occurrence counts', () => {
    const element = only('{"eventType":"a","eventType":"b","payload":{},"eventType":"c","payload":[ ]}');
    expect(element).toMatchObject({
      repeated: ['eventType', 'payload'],
      eventType: 'c',
      payloadKind: 'array',
    });
  });

  test('is detected with escapes and other kinds of values', () => {
    expect(only('{"sessionId":null,"session\\u0049d":"a"}').repeated).toEqual(['sessionId']);
  });

  test('is ignored in another element, in a payload, or with an unknown name', () => {
    const { elements } = scan('[{"eventType":"a"},{"eventType":"b","x":1,"x":2,"payload":{"a":1,"a":2}}]');
    expect(elements.map(({ repeated }) => repeated)).toEqual([[], []]);
  });
});

describe('a lone surrogate', () => {
  test.each(['\\ud800', 'a\\uDC00b', '\\ude00\\ud83d', '\\ud83dé'])(
    'is detected in an eventType of %s',
    (text) => {
      const element = only(`{"eventType":"${text}"}`);
      expect(element.loneSurrogate).toEqual(['eventType']);
      expect(element.eventType).toBe(JSON.parse(`"${text}"`));
    },
  );

  test('is detected in each field', () => {
    const element = only('{"occurredAt":"\\ud800","sessionId":"a","buildId":"\\udfff"}');
    expect(element.loneSurrogate).toEqual(['occurredAt', 'buildId']);
  });

  test('is kept in a payload and in names', () => {
    expect(only('{"eventType":"e","\\ud800":1,"payload":{"\\ud800":"\\udc00"}}').loneSurrogate).toEqual([]);
  });

  test('is not detected in a pair', () => {
    expect(only('{"eventType":"\\ud83d\\ude00"}')).toMatchObject({ eventType: '😀', loneSurrogate: [] });
  });
});

describe('depth', () => {
  test.each(['payload', 'anything', 'eventType'])(
    'of 64 containers is valid in %s, 65 are too deep',
    (name) => {
      expect(only(`{"${name}":${nested(64)}}`).tooDeep).toBeUndefined();
      expect(only(`{"${name}":${nested(65)}}`).tooDeep).toBe(`/${name}`);
    },
  );

  test('counts nested containers, not adjacent ones', () => {
    expect(only(`{"payload":[${'[{}],'.repeat(200)}0],"x":${nested(64)}}`).tooDeep).toBeUndefined();
  });

  test('is the maximum depth of the value', () => {
    for (const value of [`[${nested(64)},[1]]`, `[[1],${nested(64)}]`, `{"a":${nested(64)},"b":{}}`]) {
      expect(only(`{"payload":${value}}`).tooDeep).toBe('/payload');
    }
  });

  test('counts objects and arrays', () => {
    const objects = (levels: number) => `${'{"a":'.repeat(levels)}0${'}'.repeat(levels)}`;
    expect(only(`{"payload":${objects(64)}}`).tooDeep).toBeUndefined();
    expect(only(`{"payload":${objects(65)}}`).tooDeep).toBe('/payload');
  });

  test('names the first field that is too deep, as a JSON pointer', () => {
    expect(only(`{"a":1,"b/\\u007e":${nested(70)},"payload":${nested(70)}}`).tooDeep).toBe('/b~1~0');
  });

  test('of one field affects no later fields or elements', () => {
    const { elements } = scan(
      `[{"payload":${nested(500)}},{"eventType":"e"},{"payload":{}},${nested(99)},{}]`,
    );
    expect(elements.map(({ tooDeep }) => tooDeep)).toEqual([
      '/payload',
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
  });

  test('of millions of brackets does not overflow the stack', () => {
    const size = 8 * MANY;
    expect(scanBody(Buffer.alloc(size, '['), { maxElements: 1 })).toMatchObject({ ok: false, offset: size });
    const balanced = Buffer.concat([Buffer.alloc(size / 2, '['), Buffer.alloc(size / 2, ']')]);
    expect(scanBody(balanced, { maxElements: 1 })).toMatchObject({ ok: true, count: 1 });
    balanced.writeUInt8(0x7d, size - size / 4);
    expect(scanBody(balanced, { maxElements: 1 })).toMatchObject({ ok: false, offset: size - size / 4 });
  });
});

test('reads a body with many long names in one pass', () => {
  const member = `"${'n'.repeat(30)}":0,`;
  expect(only(`{${member.repeat(MANY / 5)}"eventType":"e"}`).eventType).toBe('e');
});

function scan(body: string) {
  const result = scanBody(Buffer.from(body), { maxElements: 500 });
  if (!result.ok) throw new Error(`refused at ${result.offset}: ${result.detail}`);
  return result;
}

function only(body: string): ScannedElement {
  const [element] = scan(body).elements;
  if (element === undefined) throw new Error('no element');
  return element;
}

function nested(levels: number): string {
  return '['.repeat(levels) + ']'.repeat(levels);
}

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}
