/** A report's body is read by bytes: events stay as they came, and only JSON is taken for JSON. */
import { isUtf8 } from 'node:buffer';
import { invalidJson } from '@questlog/schemas/fixtures/invalidJson';
import { validJson } from '@questlog/schemas/fixtures/validJson';
import { expect, test } from 'vitest';
import { type ScannedReport, scanReport } from './scanReport.ts';

function scanned(text: string, maxEvents = 10): ScannedReport {
  const scan = scanReport(Buffer.from(text), { maxEvents });
  if (!scan.ok) throw new Error(`at ${scan.offset}: ${scan.detail}`);
  return scan.report;
}

test('an event inside a report keeps every byte of its payload', () => {
  const payload = '{ "a":1e400,"a":-0, "é":"\\ud800" }';
  const body = `{"sessionId":"é","events" : [ {"eventType":"x","payload": ${payload} },{}],"id":null}`;
  const [event, other] = scanned(body).events;
  const span = Buffer.from(body).subarray(event?.payloadStart, event?.payloadEnd);
  expect(span.toString()).toBe(payload);
  expect([event?.eventType, other?.kind]).toEqual(['x', 'object']);
});

test('a field is found however its name is written, and null is as if it were omitted', () => {
  const { fields } = scanned('{"\\u0069d":"a","sessionId":null,"window":{"beforeMs":1},"other":{"id":2}}');
  expect(fields).toEqual({ id: 'a', window: { beforeMs: 1 } });
});

test('fields that occur more than once are named, each once, however they are written', () => {
  const { repeated } = scanned('{"id":1,"id":2,"\\u0069d":3,"events":[],"events":[],"x":1,"x":2}');
  expect([...repeated]).toEqual(['id', 'events']);
});

test('names inside the window that occur more than once are named, those deeper in it and beside it are not', () => {
  const { repeatedInWindow } = scanned(
    '{"beforeMs":1,"window": { "a" : {"b":1,"b":2} , "b":[1,{"a":1}],"\\u0061":3,"a":4 },"x":{"c":1,"c":2}}',
  );
  expect([...repeatedInWindow]).toEqual(['a']);
  for (const window of ['{}', '[]', '"a"', 'null', '{"a":1}', '{ }'])
    expect(scanned(`{"window":${window}}`).repeatedInWindow.size).toBe(0);
});

test('events behind the cap are counted and not collected', () => {
  const report = scanned('{"events":[{},{},{}]}', 2);
  expect([report.events.length, report.eventCount]).toEqual([2, 3]);
});

test('events that are no array show what they are', () => {
  expect(scanned('{"events":{"a":1}}').fields).toEqual({ events: { a: 1 } });
  expect(scanned('{"events":[{}],"events":7}')).toMatchObject({
    fields: { events: 7 },
    events: [],
    eventCount: 0,
  });
});

test('a member that nests deeper than 64 levels is named and never parsed', () => {
  const deep = '['.repeat(1_000_000) + ']'.repeat(1_000_000);
  const report = scanned(
    `{"window":${deep},"a/b":${deep},"events":[{"payload":${'{"a":'.repeat(60)}1${'}'.repeat(60)}}]}`,
  );
  expect(report.tooDeep).toEqual(['/window', '/a~1b']);
  expect(report.fields).toEqual({ events: [] });
});

test.each(['[]', '"x"', '7', 'null', ' true '])('tells that %s is no object', (text) => {
  expect(scanReport(Buffer.from(text), { maxEvents: 1 })).toMatchObject({
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
])('refuses %j, as the engine does', (text) => {
  expect(scanReport(Buffer.from(text), { maxEvents: 1 })).toMatchObject({
    ok: false,
    detail: expect.any(String),
  });
});

test('takes exactly what the engine takes, as a member and as an event', () => {
  for (const { name, bytes } of [...validJson, ...invalidJson]) {
    for (const [before, after] of [
      ['{"x":', '}'],
      ['{"window":', '}'],
      ['{"events":[', ']}'],
    ] as const) {
      const body = Buffer.concat([Buffer.from(before), bytes, Buffer.from(after)]);
      if (!isUtf8(body)) continue;
      const scan = scanReport(body, { maxEvents: 1 });
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
])('the id can be taken out of %j', (text, without) => {
  const { start, end } = scanned(text).idMember ?? { start: 0, end: 0 };
  expect(text.slice(0, start) + text.slice(end)).toBe(without);
});

test('a body that names no id has none to take out', () => {
  expect(scanned('{"ids":["id"],"x":{"id":1}}').idMember).toBeUndefined();
});
