/** Tests that all faults of a report are reported together. Each fault states its field and its limit. */
import { randomUUID } from 'node:crypto';
import { bodyRejection } from '@questlog/runtime/http/core/fieldProblems';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { ElementProblem } from '@questlog/schemas/http/problem';
import { expect, test } from 'vitest';
import { type ReportDraft, readReport } from './readReport.ts';

const SESSION = '01a1fe02-7454-7000-a110-3027adf24232';
const FILE = { uploadId: SESSION, attachmentType: 'other', fileName: 'a.bin' };

function read(of: unknown, revision: 'A' | 'B' = 'A'): ReportDraft {
  return readReport(bodyOf(of), revision);
}

function bodyOf(of: unknown): Buffer {
  return Buffer.from(typeof of === 'string' ? of : JSON.stringify(of));
}

function problemsOf({ problems }: ReportDraft): string[] {
  return problems.map(({ index, pointer, code }) => `${index} ${pointer} ${code}`);
}

test('reads a valid report, with ids in lower case and without duplicates', () => {
  const id = randomUUID();
  const draft = read({
    id: id.toUpperCase(),
    sessionId: SESSION.toUpperCase(),
    occurredAt: '1970-01-01T00:00:00.000001Z',
    eventIds: [id, id.toUpperCase(), SESSION],
    window: { afterMs: 0 },
    buildId: SESSION.toUpperCase(),
    events: [{ sessionId: SESSION, eventType: 'x' }],
  });
  expect(draft).toMatchObject({
    id,
    buildId: SESSION,
    sessionId: SESSION,
    occurredAt: 1n,
    eventIds: [id, SESSION],
    window: { afterMs: 0 },
    drafts: [{ index: 0, eventType: 'x' }],
    attachments: [],
    problems: [],
  });
});

test.each<[string, string, Record<string, unknown> | string, RegExp]>([
  ['/id', 'invalid_uuid', { id: 'x' }, /^id must be a UUID/],
  ['/id', 'field_type', { id: 7 }, /^id must be a string/],
  ['/sessionId', 'invalid_uuid', { sessionId: 'x' }, /^sessionId must be a UUID/],
  ['/occurredAt', 'invalid_timestamp', { occurredAt: 'noon' }, /^occurredAt .* ISO 8601/],
  ['/occurredAt', 'timestamp_out_of_range', { occurredAt: '1800-01-01' }, /1900 to 2299/],
  ['/occurredAt', 'field_type', { occurredAt: 1 }, /^occurredAt must be a string/],
  ['/eventIds', 'field_type', { eventIds: SESSION }, /^eventIds must be an array/],
  [
    '/eventIds',
    'batch_too_large',
    { eventIds: Array(1001).fill(SESSION) },
    /^eventIds may have at most 1000 .* 1001/,
  ],
  ['/clientRequestId', 'invalid_uuid', { clientRequestId: 'x' }, /^clientRequestId must be a UUID/],
  [
    '/id',
    'field_invalid',
    { id: SESSION, clientRequestId: SESSION },
    /^id and clientRequestId must not both be present/,
  ],
  ['/buildId', 'invalid_uuid', { buildId: 'x' }, /^buildId must be a UUID/],
  ['/report', 'field_type', { report: 'x' }, /^report must be an object/],
  ['/report/title', 'field_required', { report: {} }, /^report.title is required/],
  ['/report/title', 'field_invalid', { report: { title: '' } }, /^report.title .* 1 /],
  ['/report/title', 'field_invalid', { report: { title: 'x'.repeat(501) } }, /^report.title .* 500 /],
  [
    '/report/title',
    'lone_surrogate',
    { report: { title: '\ud800' } },
    /^report.title contains a lone surrogate/,
  ],
  [
    '/report/severity',
    'field_invalid',
    { report: { title: 'x', severity: 'bad' } },
    /one of low, medium, high, critical/,
  ],
  [
    '/report/reporterType',
    'field_invalid',
    { report: { title: 'x', reporterType: 'cat' } },
    /one of player, tester, qa/,
  ],
  [
    '/report/fingerprint',
    'field_type',
    { report: { title: 'x', fingerprint: 7 } },
    /^report.fingerprint must be a string/,
  ],
  [
    '/report/description',
    'field_too_large',
    { report: { title: 'x', description: 'é'.repeat(40_000) } },
    /65536 .* 80000/,
  ],
  ['/context', 'field_type', { context: 'x' }, /^context must be an object/],
  [
    '/context',
    'field_too_large',
    { context: { x: 'x'.repeat(64 * 1024 - 7) } },
    /^context may have at most 65536 .* 65537/,
  ],
  ['/attachments', 'batch_too_large', { attachments: Array(51).fill(FILE) }, /at most 50 files, but has 51/],
  [
    '/attachments',
    'field_too_large',
    { attachments: Array(2).fill({ ...FILE, sizeBytes: 4e8 }) },
    /629145600 .* 800000000/,
  ],
  [
    '/attachments/0/sizeBytes',
    'field_type',
    { attachments: [{ ...FILE, sizeBytes: 935.5 }] },
    /must be a whole number/,
  ],
  [
    '/attachments/0/uploadId',
    'field_required',
    { attachments: [{ ...FILE, uploadId: null }] },
    /uploadId is required/,
  ],
  [
    '/attachments/0/attachmentType',
    'field_invalid',
    { attachments: [{ ...FILE, attachmentType: 'x' }] },
    /screenshot/,
  ],
  ['/attachments/0/fileName', 'field_invalid', { attachments: [{ ...FILE, fileName: '' }] }, / 1 character/],
  ...['../x', 'a\0b', '..', '\ud800'].map((fileName): [string, string, Record<string, unknown>, RegExp] => [
    '/attachments/0/fileName',
    'field_invalid',
    { attachments: [{ ...FILE, fileName }] },
    /^attachments.0.fileName must be a file name/,
  ]),
  [
    '/attachments/1/mimeType',
    'field_invalid',
    { attachments: [FILE, { ...FILE, mimeType: 'text/html\r\nX: y' }] },
    /^attachments.1.mimeType must be a media type/,
  ],
  [
    '/attachments/0/fileName',
    'field_repeated',
    `{"sessionId":"${SESSION}","attachments":[{"uploadId":"${SESSION}","attachmentType":"other","fileName":"a","fileName":"b"}]}`,
    /occurs more/,
  ],
  ['/eventIds/1', 'invalid_uuid', { eventIds: [SESSION, 'x'] }, /^eventIds.1 must be a UUID/],
  ['/eventIds/0', 'invalid_uuid', { eventIds: [null] }, /^eventIds.0 must be a UUID/],
  ['/window', 'field_type', { window: 600 }, /^window must be an object/],
  ['/window/beforeMs', 'field_invalid', { window: { beforeMs: -1 } }, /^window.beforeMs must be >= 0/],
  ['/window/afterMs', 'field_invalid', { window: { afterMs: 86_400_001 } }, /^window.afterMs .* 86400000/],
  ['/window/afterMs', 'field_type', { window: { afterMs: 1.5 } }, /^window.afterMs must be a whole number/],
  [
    '/window/beforeMs',
    'field_type',
    { window: { beforeMs: '1' } },
    /^window.beforeMs must be a whole number/,
  ],
  ['/events', 'field_type', { events: {} }, /^events must be an array/],
  ['/events', 'batch_too_large', { events: Array(501).fill({}) }, /^events may have at most 500 .* 501/],
])('a fault at %s is a %s that names the field and its limit', (pointer, code, of, detail) => {
  const { problems } = read(typeof of === 'string' ? of : { sessionId: SESSION, ...of });
  const own = problems.filter((problem) => !problem.pointer.startsWith('/events/'));
  expect(own).toEqual([{ index: 0, pointer, code, detail: expect.stringMatching(detail) }]);
});

test('rejects a duplicate field, and a value that is nested too deeply', () => {
  expect(problemsOf(read(`{"sessionId":"${SESSION}","sessionId":"${SESSION}"}`))).toEqual([
    '0 /sessionId field_repeated',
  ]);
  expect(problemsOf(read(`{"sessionId":"${SESSION}","x":${'['.repeat(65)}${']'.repeat(65)}}`))).toEqual([
    '0 /x nested_too_deep',
  ]);
});

test.each([
  ['window', ['beforeMs', 'afterMs'], ''],
  ['report', ['title', 'description', 'severity', 'reporterType', 'sourceChannel', 'fingerprint'], ''],
  ['attachments', ['uploadId', 'attachmentType', 'fileName', 'mimeType', 'sizeBytes'], '/0'],
])('rejects a duplicate of each field inside %s', (name, fields, index) => {
  const members = fields.flatMap((field) => [`"${field}":null`, `"${field}":null`]).join();
  const value = index === '' ? `{${members}}` : `[{${members}}]`;
  const repeated = read(`{"sessionId":"${SESSION}","${name}":${value}}`)
    .problems.filter(({ code }) => code === 'field_repeated')
    .map(({ pointer }) => pointer);
  expect(repeated.sort()).toEqual(fields.map((field) => `/${name}${index}/${field}`).sort());
});

test('accepts values just within their limits', () => {
  const file = { ...FILE, sizeBytes: 600 * 1024 * 1024 };
  const draft = read({
    clientRequestId: SESSION,
    events: Array(500).fill({ sessionId: SESSION, eventType: 'x' }),
    eventIds: Array.from({ length: 1000 }, () => randomUUID()),
    attachments: [file, ...Array(49).fill(FILE)],
  });
  expect(draft).toMatchObject({ problems: [], eventIdsTruncated: false, clientRequestId: SESSION });
});

test('with strict handling, each unknown name is a problem with its pointer', () => {
  const strictly = (of: unknown): string[] => problemsOf(readReport(bodyOf(of), 'A', true));
  const events = [{ sessionId: SESSION, eventType: 'x' }];
  expect(strictly({ report: { title: 'x' }, window: {}, attachments: [FILE], events })).toEqual([]);
  const [event] = events;
  const unknown = { report: { title: 'x', b: 1 }, a: 1, events: [event, { ...event, c: 1 }] };
  expect(strictly(unknown)).toEqual([
    '0 /report/b field_unknown',
    '0 /a field_unknown',
    '0 /events/1/c field_unknown',
  ]);
});

test('rejects a duplicate member of the window in every spelling, and ignores unknown members', () => {
  const window = '{"beforeMs":1,"x":1,"before\\u004ds":2,"x":{"afterMs":1},"afterMs":3}';
  const draft = read(`{"sessionId":"${SESSION}","window":${window}}`);
  expect(draft.problems).toEqual([
    {
      index: 0,
      pointer: '/window/beforeMs',
      code: 'field_repeated',
      detail: 'window.beforeMs occurs more than once',
    },
  ]);
});

test('checks an inline event by the rules of its revision, with pointers into the report', () => {
  const events = [{ eventType: 'x' }, { sessionId: SESSION, eventType: 7, buildId: 'y' }, 'z'];
  expect(problemsOf(read({ events })).toSorted()).toEqual([
    '0 /events/0/sessionId field_required',
    '1 /events/1/buildId invalid_uuid',
    '1 /events/1/eventType field_type',
    '2 /events/2 field_type',
  ]);
  expect(problemsOf(read({ events: [{ eventType: 'x' }] }, 'B'))).toEqual([]);
  expect(problemsOf(read({ events: Array(201).fill({ eventType: 'x' }) }, 'B'))).toEqual([
    '0 /events batch_too_large',
  ]);
});

test('reports all faults together, with the status of the worst', () => {
  const large = { sessionId: SESSION, eventType: 'x', payload: { x: 'x'.repeat(256 * 1024) } };
  const draft = read({ id: 'x', events: [large, {}], window: { beforeMs: -1 }, eventIds: ['y'] });
  expect(problemsOf(draft).toSorted()).toEqual([
    '0 /eventIds/0 invalid_uuid',
    '0 /events/0 event_too_large',
    '0 /id invalid_uuid',
    '0 /window/beforeMs field_invalid',
    '1 /events/1/eventType field_required',
    '1 /events/1/sessionId field_required',
  ]);
  expect(bodyRejection(draft.problems).code).toBe('invalid_request');
});

test.each([{}, { events: [], eventIds: [] }, { sessionId: null, occurredAt: '2026-01-01' }, { x: [1] }])(
  '%j is an empty report',
  (of) => {
    expect(problemsOf(read(of))).toEqual(['0  empty_report']);
    expect(bodyRejection(read(of).problems).code).toBe('empty_report');
  },
);

test('a report whose only session or event is invalid is invalid, and not empty', () => {
  expect(problemsOf(read({ sessionId: 'x' }))).toEqual(['0 /sessionId invalid_uuid']);
  expect(problemsOf(read({ events: 'x' }))).toEqual(['0 /events field_type']);
  expect(problemsOf(read({ eventIds: ['x'] }))).toEqual(['0 /eventIds/0 invalid_uuid']);
  expect(problemsOf(read({ sessionId: [] }))).toEqual(['0 /sessionId field_type']);
  expect(problemsOf(read('{"eventIds":["x"],"eventIds":[]}'))).toEqual(['0 /eventIds field_repeated']);
  expect(problemsOf(read('{"sessionId":"x","sessionId":null}'))).toEqual(['0 /sessionId field_repeated']);
  expect(problemsOf(read('{"events":[{}],"events":[]}'))).toEqual(['0 /events field_repeated']);
  const deep = '['.repeat(65) + ']'.repeat(65);
  expect(problemsOf(read(`{"eventIds":${deep}}`))).toEqual(['0 /eventIds nested_too_deep']);
});

const problem = (code: ElementProblem['code']): ElementProblem => ({
  index: 0,
  pointer: '',
  code,
  detail: code,
});

test('400 takes precedence over 413, which takes precedence over 404, in any order', () => {
  const verdict = (...codes: ElementProblem['code'][]) => bodyRejection(codes.map(problem)).code;
  expect(verdict('unknown_session', 'event_too_large', 'field_type')).toBe('invalid_request');
  expect(verdict('unknown_session', 'event_too_large')).toBe('event_too_large');
  expect(verdict('unknown_session', 'batch_too_large')).toBe('batch_too_large');
  expect(verdict('unknown_session', 'unknown_session')).toBe('unknown_session');
  expect(verdict('empty_report', 'field_invalid')).toBe('invalid_request');
});

test.each(['', '{', '[1', '{"id":"a"} x'])('%j is not JSON', (text) => {
  expect(() => read(text)).toThrow(Rejected);
});

test.each(['[]', '[{}]', '7', 'null'])('%s is not a report', (text) => {
  expect(() => read(text)).toThrow(/the body must be an object/);
});

test('an inline event keeps every byte of its payload', () => {
  const payload = '{ "a":1e400,"a":-0, "é":"\\ud800" }';
  const { drafts } = read(`{"events" : [ {"eventType":"x","payload": ${payload} }]}`, 'B');
  expect(drafts[0]?.payload.toString()).toBe(payload);
});

test('uses the last of duplicate events members', () => {
  const draft = read(`{"sessionId":"${SESSION}","events":[{}],"events":7}`);
  expect([draft.drafts, problemsOf(draft)]).toEqual([
    [],
    ['0 /events field_repeated', '0 /events field_type'],
  ]);
});

test('treats empty strings of game plugins as omitted, and accepts a number in float notation', () => {
  const draft = read(
    `{"sessionId":"","buildId":"","clientRequestId":"","occurredAt":"","id":"","report":{"title":"t","severity":"",
      "fingerprint":""},"attachments":[{"uploadId":"${SESSION}","attachmentType":"other","fileName":"a","mimeType":"",
      "sizeBytes":935.0}],"context":{ "a":1.0 }}`,
  );
  expect(draft).toMatchObject({
    problems: [],
    ...{ id: null, sessionId: null, buildId: null, clientRequestId: null, occurredAt: null },
    attachments: [{ sizeBytes: 935 }],
  });
  expect(draft.report).toEqual({ title: 't' });
  expect(draft.context?.toString()).toBe('{ "a":1.0 }');
});

test('keeps the last event ids if there are too many and the report has a clientRequestId', () => {
  const eventIds = Array.from({ length: 1001 }, () => randomUUID());
  const draft = read({ clientRequestId: SESSION, eventIds });
  expect(draft).toMatchObject({ problems: [], eventIdsTruncated: true });
  expect(draft.eventIds).toEqual(eventIds.slice(1));
});

test('names an invalid event id by its position in the request, also if earlier ids were dropped', () => {
  const eventIds = Array.from({ length: 1200 }, (): string => randomUUID());
  eventIds[700] = 'bad';
  const draft = read({ clientRequestId: SESSION, eventIds });
  expect(problemsOf(draft)).toEqual(['0 /eventIds/700 invalid_uuid']);
  expect(draft.problems[0]?.detail).toContain('eventIds.700');
});
