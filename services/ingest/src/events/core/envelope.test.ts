import { expect, test } from 'vitest';
import { readElements, timesOf } from './envelope.ts';
import { scanBody } from './scanBody.ts';

const SESSION = '7846b5f4-39dd-4381-b200-dbc9f59749ad';

function read(json: string, revision: 'A' | 'B' = 'A') {
  const body = Buffer.from(json);
  const scanned = scanBody(body, { maxElements: 500 });
  if (!scanned.ok) throw new Error(scanned.detail);
  return readElements(body, scanned.elements, revision);
}

const problemsOf = (json: string, revision: 'A' | 'B' = 'A') =>
  read(json, revision).problems.map(({ index, pointer, code }) => [index, pointer, code]);

test('revision A requires the session, revision B does not', () => {
  expect(problemsOf('{"eventType":"x"}', 'A')).toEqual([[0, '/sessionId', 'field_required']]);
  expect(read('{"eventType":"x"}', 'B').drafts).toMatchObject([{ sessionId: null, eventType: 'x' }]);
});

test('measures an event by itself, anywhere in the body', () => {
  const long = { sessionId: SESSION, eventType: 'x'.repeat(200_000) };
  expect(problemsOf(JSON.stringify([long, { ...long, eventType: 7 }]))).toEqual([
    [1, '/eventType', 'field_type'],
  ]);
});

test('keeps a given timestamp in microseconds', () => {
  const { drafts } = read(
    `{"sessionId":"${SESSION}","eventType":"x","occurredAt":"1970-01-01T00:00:00.000007Z"}`,
  );
  expect(drafts).toMatchObject([{ occurredAt: 7n }]);
});

test('returns the text and the microseconds of each time', () => {
  const time = '1970-01-01T00:00:00.000007Z';
  const events = [{ occurredAt: null }, { occurredAt: time }, {}];
  const body = Buffer.from(
    JSON.stringify(events.map((one) => ({ sessionId: SESSION, eventType: 'x', ...one }))),
  );
  const scanned = scanBody(body, { maxElements: 500 });
  if (!scanned.ok) throw new Error(scanned.detail);
  expect(timesOf(readElements(body, scanned.elements, 'A').drafts, scanned.elements)).toEqual([
    { index: 1, pointer: '/occurredAt', text: time, micros: 7n },
  ]);
});

test('null in an optional field counts as omitted', () => {
  const { drafts, problems } = read(
    `{"sessionId":"${SESSION}","eventType":"","buildId":null,"occurredAt":null,"payload":null}`,
  );
  expect(problems).toEqual([]);
  expect(drafts).toMatchObject([{ buildId: null, occurredAt: null, eventType: '' }]);
  expect(drafts[0]?.payload.toString()).toBe('{}');
});

test.each([
  ['1', 1],
  ['5.0', 5],
  ['5e1', 50],
  ['9007199254740991', Number.MAX_SAFE_INTEGER],
  ['null', null],
])('a sequence of %s is %s', (text, sequence) => {
  const { drafts, problems } = read(`{"sessionId":"${SESSION}","eventType":"x","sequence":${text}}`);
  expect(problems).toEqual([]);
  expect(drafts).toMatchObject([{ sequence }]);
});

test('rejects a payload that nests too deep, with its pointer and the limit', () => {
  const payload = `${'[{"a":'.repeat(33)}1${'}]'.repeat(33)}`;
  const { problems } = read(`{"sessionId":"${SESSION}","eventType":"x","payload":{"b":${payload}}}`);
  expect(problems).toEqual([
    {
      index: 0,
      pointer: '/payload',
      code: 'nested_too_deep',
      detail: 'a value may have at most 64 levels of nesting',
    },
  ]);
});

test('a null session in revision A is a missing one', () => {
  expect(problemsOf('{"sessionId":null,"eventType":"x"}')).toEqual([[0, '/sessionId', 'field_required']]);
});

test.each([
  ['"sessionId":5', '/sessionId', 'field_type'],
  ['"sessionId":"nope"', '/sessionId', 'invalid_uuid'],
  [`"sessionId":"${SESSION}","buildId":"x"`, '/buildId', 'invalid_uuid'],
  [`"sessionId":"${SESSION}","payload":[]`, '/payload', 'field_type'],
  [`"sessionId":"${SESSION}","payload":"{}"`, '/payload', 'field_type'],
  [`"sessionId":"${SESSION}","occurredAt":7`, '/occurredAt', 'field_type'],
  [`"sessionId":"${SESSION}","occurredAt":"yesterday"`, '/occurredAt', 'invalid_timestamp'],
  [`"sessionId":"${SESSION}","occurredAt":"1899-12-31T23:59:59Z"`, '/occurredAt', 'timestamp_out_of_range'],
  [`"sessionId":"${SESSION}","sequence":"5"`, '/sequence', 'field_type'],
  [`"sessionId":"${SESSION}","sequence":{}`, '/sequence', 'field_type'],
  [`"sessionId":"${SESSION}","sequence":5.5`, '/sequence', 'field_type'],
  [`"sessionId":"${SESSION}","sequence":0`, '/sequence', 'field_invalid'],
  [`"sessionId":"${SESSION}","sequence":-1`, '/sequence', 'field_invalid'],
  [`"sessionId":"${SESSION}","sequence":9007199254740992`, '/sequence', 'field_invalid'],
  [`"sessionId":"${SESSION}","sequence":1e400`, '/sequence', 'field_type'],
  [`"sessionId":"${SESSION}","sequence":1,"sequence":1`, '/sequence', 'field_repeated'],
  [`"sessionId":"${SESSION}","buildId":null,"buildId":null`, '/buildId', 'field_repeated'],
])('names the problem of {%s}', (fields, pointer, code) => {
  expect(problemsOf(`{"eventType":"x",${fields}}`)).toEqual([[0, pointer, code]]);
});

test.each(['null', '7', '{}', '[]', 'true'])('eventType must be a string, not %s', (value) => {
  expect(problemsOf(`{"sessionId":"${SESSION}","eventType":${value}}`)).toEqual([
    [0, '/eventType', 'field_type'],
  ]);
});

test('rejects a lone surrogate in eventType, and keeps it in the payload', () => {
  expect(problemsOf(`{"sessionId":"${SESSION}","eventType":"\\ud800"}`)).toEqual([
    [0, '/eventType', 'lone_surrogate'],
  ]);
  const { drafts } = read(`{"sessionId":"${SESSION}","eventType":"x","payload":{"a":"\\ud800"}}`);
  expect(drafts[0]?.payload.toString()).toBe('{"a":"\\ud800"}');
});

test('names every bad element of a batch, and every field of it', () => {
  expect(problemsOf(`[{"sessionId":1},{"sessionId":"${SESSION}","eventType":"x"},7]`)).toEqual([
    [0, '/eventType', 'field_required'],
    [0, '/sessionId', 'field_type'],
    [2, '', 'field_type'],
  ]);
});

test('rejects an event above 256 KiB', () => {
  const around = `{"sessionId":"${SESSION}","eventType":"x","payload":{"a":""}}`;
  const fits = around.replace('""', `"${'a'.repeat(256 * 1024 - around.length)}"`);
  expect(problemsOf(fits)).toEqual([]);
  expect(problemsOf(fits.replace('aa', 'aaa'))).toEqual([[0, '', 'event_too_large']]);
});

test('accepts UUIDs in any case and stores them in lower case', () => {
  const { drafts } = read(`{"sessionId":"${SESSION.toUpperCase()}","eventType":"x"}`);
  expect(drafts[0]?.sessionId).toBe(SESSION);
});
