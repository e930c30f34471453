/** Tests the scan of a body that is one object. */
import { isUtf8 } from 'node:buffer';
import { invalidJson } from '@questlog/schemas/fixtures/invalidJson';
import { validJson } from '@questlog/schemas/fixtures/validJson';
import { expect, test } from 'vitest';
import { type ObjectShape, type ScannedObject, scanObject } from './scanObject.ts';

const SHAPE: ObjectShape = {
  id: 'parsed',
  sessionId: 'parsed',
  window: ['beforeMs', 'afterMs'],
  files: ['name'],
  context: 'bytes',
  events: (json, valueAt) => json.skipValue(valueAt),
};

/** Size of large bodies. Smaller in mutation tests, which run these tests once per mutant. */
const MANY = process.env['QUESTLOG_TEST_RUNS'] === 'mutants' ? 10_000 : 1_000_000;

function scanned(text: string): ScannedObject {
  const scan = scanObject(Buffer.from(text), SHAPE);
  if (!scan.ok) throw new Error(`at ${scan.offset}: ${scan.detail}`);
  return scan.object;
}

test('keeps every byte of a field that is read as bytes', () => {
  const context = '{ "a":1e400,"a":-0, "é":"\\ud800" }';
  const body = `{"sessionId":"é","context" : ${context} ,"id":null}`;
  const { fields, spans } = scanned(body);
  expect(Buffer.from(body).subarray(spans['context']?.start, spans['context']?.end).toString()).toBe(context);
  expect(fields).toEqual({ sessionId: 'é', context: {} });
  expect(scanned('{"context":{},"context":null}')).toMatchObject({ fields: {}, spans: {} });
});

test('finds a field with an escaped name, and treats null as omitted', () => {
  const { fields } = scanned('{"\\u0069d":"a","sessionId":null,"window":{"beforeMs":1},"other":{"id":2}}');
  expect(fields).toEqual({ id: 'a', window: { beforeMs: 1 } });
  expect(scanned('{"id":null,"events":null}').fields).toEqual({});
});

test('reports repeated known names once, with or without escapes', () => {
  const { repeated } = scanned(
    '{"id":1,"id":2,"\\u0069d":3,"events":[],"events":[],"x":1,"x":2,"beforeMs":1,' +
      '"window":{"beforeMs":[1,{"afterMs":1}],"before\\u004ds":3,"afterMs":4,"y":1,"y":2},' +
      '"files":[{"name":"a"},{"name":"a","name":"b"},7]}',
  );
  expect([...repeated]).toEqual(['/id', '/events', '/window/beforeMs', '/files/1/name']);
  for (const window of ['{}', '[]', '"a"', 'null', '{"beforeMs":1}', '{ }'])
    expect(scanned(`{"window":${window}}`).repeated.size).toBe(0);
});

test('reports up to ten unknown names as pointers, without duplicates', () => {
  const inside =
    '"window":{"befroeMs":1},"files":[{"name":1},{"naem":1},[{"any":1}]],"context":{"any":1},' +
    '"events":[{"any":1}],"id":{"any":1}';
  expect(scanned(`{"a/b":1,"a/b":2,${inside}}`).unknown).toEqual([
    '/a~1b',
    '/window/befroeMs',
    '/files/1/naem',
  ]);
  const many = Array.from({ length: 20 }, (_, i) => `"x${i}":1`).join();
  expect(scanned(`{${many}}`).unknown).toHaveLength(10);
});

test('reports a member with more than 64 levels, and does not parse it', () => {
  const deep = '['.repeat(MANY) + ']'.repeat(MANY);
  const { tooDeep, fields, spans } = scanned(`{"window":${deep},"a/b":${deep},"context":${deep}}`);
  expect(tooDeep).toEqual(['/window', '/a~1b', '/context']);
  expect([fields, spans]).toEqual([{}, {}]);
});

test('accepts 64 levels in any field', () => {
  const deep = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);
  const { tooDeep, fields } = scanned(`{"window":${deep(64)},"context":${deep(64)},"events":${deep(65)}}`);
  expect(tooDeep).toEqual([]);
  expect(Object.keys(fields)).toEqual(['window', 'context', 'events']);
  expect(scanned(`{"window":${deep(65)}}`).tooDeep).toEqual(['/window']);
});

test('checks the names of an array’s first hundred elements', () => {
  const unknownBehind = (elements: number) =>
    scanned(`{"files":[${'{},'.repeat(elements)}{"naem":1}]}`).unknown;
  expect(unknownBehind(99)).toEqual(['/files/99/naem']);
  expect(unknownBehind(100)).toEqual([]);
});

test.each(['[]', '"x"', '7', 'null', ' true '])('reports that %s is not an object', (text) => {
  expect(scanObject(Buffer.from(text), SHAPE)).toMatchObject({
    ok: true,
    kind: expect.not.stringMatching('object'),
  });
});

test.each([
  '{',
  '{"id"}',
  '{"id":}',
  '{"id":1,}',
  '{"events":[}',
  '{} x',
  '{"id":1 "a":2}',
  '',
  '{"events":[{}]',
])('rejects %j, as the engine does', (text) => {
  expect(scanObject(Buffer.from(text), SHAPE)).toMatchObject({
    ok: false,
    detail: expect.any(String),
  });
});

test.each([
  ['{"id":', 6, 'the document ends too early'],
  ['{"id":"a', 8, 'the document ends too early'],
  ['{"id":x}', 6, 'a value was expected'],
  ['{id:1}', 1, 'a name in quotes was expected'],
  ['{"id" 1}', 6, 'a colon was expected'],
  ['{"id":1;"a":2}', 7, 'a comma or the end of the object was expected'],
  ['{} x', 3, 'there is content after the document'],
])('reports where %j is invalid JSON, and why', (text, offset, detail) => {
  expect(scanObject(Buffer.from(text), SHAPE)).toEqual({ ok: false, offset, detail });
});

test('accepts exactly what the engine accepts, as a member of any kind', () => {
  for (const { name, bytes } of [...validJson, ...invalidJson]) {
    if (bytes.length > MANY) continue;
    for (const [before, after] of [
      ['{"x":', '}'],
      ['{"window":', '}'],
      ['{"context":', '}'],
      ['{"files":[', ']}'],
    ] as const) {
      const body = Buffer.concat([Buffer.from(before), bytes, Buffer.from(after)]);
      if (!isUtf8(body)) continue;
      const scan = scanObject(body, SHAPE);
      expect([name, before, scan.ok]).toEqual([name, before, parses(body.toString('utf8'))]);
    }
  }
});

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

test.each([
  ['{"id":"a","sessionId":"s"}', '{"sessionId":"s"}'],
  ['{"sessionId":"s","id":"a"}', '{"sessionId":"s"}'],
  ['{"sessionId": "s", "\\u0069d" : "a", "x": {"id": 1}}', '{"sessionId": "s", "x": {"id": 1}}'],
  ['{\n  "id": null,\n  "x": 1\n}', '{\n  "x": 1\n}'],
  ['{\n  "x": 1,\n  "id": "a"\n}', '{\n  "x": 1\n}'],
  ['{ "id": "a" }', '{  }'],
])('the id can be removed from %j', (text, without) => {
  const { start, end } = scanned(text).idMember ?? { start: 0, end: 0 };
  expect(text.slice(0, start) + text.slice(end)).toBe(without);
});

test('a body without an id has no span of an id', () => {
  expect(scanned('{"ids":["id"],"x":{"id":1}}').idMember).toBeUndefined();
});
