import { EventInputA } from '@questlog/schemas/http/event';
import { expect, test } from 'vitest';
import {
  ignoredFieldsHeader,
  unknownFieldProblems,
  unknownMembers,
  withNearMisses,
} from './unknownFields.ts';

const REPORT = {
  properties: {
    title: {},
    events: { items: EventInputA },
    report: { properties: { severity: {}, fingerprint: {} } },
  },
};

test.each([
  ['/titel', 'there is no field titel; is title meant?'],
  ['/report/Severity', 'there is no field report.Severity; is severity meant?'],
  ['/events/3/sessionID', 'there is no field events.3.sessionID; is sessionId meant?'],
  ['/report/title', 'there is no field report.title'],
  ['/title/x', 'there is no field title.x'],
  ['/constructor', 'there is no field constructor'],
  ['/a~1b~0c', 'there is no field a/b~c'],
  ['/', 'there is no field '],
])('%s is a problem that names the field and a suggestion', (pointer, detail) => {
  expect(unknownFieldProblems([{ index: 7, pointer }], REPORT)).toEqual([
    { index: 7, pointer, code: 'field_unknown', detail },
  ]);
});

test.each([
  ['/session_id', 1, 'sessionId is required; session_id looks like a misspelling of it'],
  ['/SESSIONID', 1, 'sessionId is required; SESSIONID looks like a misspelling of it'],
  ['/sess', 1, 'sessionId is required'],
  ['/session_id', 2, 'sessionId is required'],
  ['/payload/session_id', 1, 'sessionId is required'],
])('a missing field with the similar field %s in element %i', (pointer, index, detail) => {
  const missing = {
    index: 1,
    pointer: '/sessionId',
    code: 'field_required',
    detail: 'sessionId is required',
  } as const;
  const other = { ...missing, code: 'field_type' } as const;
  expect(
    withNearMisses(
      [missing, other],
      [
        { index: 0, pointer: '/x' },
        { index, pointer },
      ],
    ),
  ).toEqual([{ ...missing, detail }, other]);
});

test('looks for a missing field in its own object', () => {
  const missing = { index: 0, code: 'field_required', detail: 'id is required' } as const;
  const found = withNearMisses([{ ...missing, pointer: '/a/b/id' }], [{ index: 0, pointer: '/a/b/Id' }]);
  expect(found[0]?.detail).toBe('id is required; Id looks like a misspelling of it');
});

test('the header names the first ten fields, without duplicates', () => {
  const pointers = Array.from({ length: 30 }, (_, n) => `/f${n % 15}`);
  const named = Array.from({ length: 10 }, (_, n) => `"/f${n}"`);
  expect(ignoredFieldsHeader(pointers)).toBe(named.join(', '));
  expect(ignoredFieldsHeader([])).toBe('');
});

test.each([
  ['/günstig', '"/g%C3%BCnstig"'],
  ['/a "b"\\c', '"/a%20%22b%22%5Cc"'],
  ['/50%', '"/50%25"'],
  ['/a\r\nSet-Cookie: x', '"/a%0D%0ASet-Cookie:%20x"'],
  ['/\ud800', '"/%EF%BF%BD"'],
  ['/a~1b', '"/a~1b"'],
])('any name is valid in the header: %j', (pointer, text) => {
  expect(ignoredFieldsHeader([pointer])).toBe(text);
});

test('the header is short for any names', () => {
  const long = Array.from({ length: 10 }, (_, n) => `/${n}${'ü'.repeat(1_000_000)}`);
  const header = ignoredFieldsHeader(long);
  expect(header.length).toBeLessThanOrEqual(1024);
  expect(header).toMatch(/^("\/\d(%[0-9A-F]{2})+"(, )?)+$/);
});

test('names the first ten unknown members, and truncates long names', () => {
  const body = { title: 1, ['x'.repeat(100)]: 1, 'a/b': 1 };
  expect(unknownMembers(body, REPORT)).toEqual([`/${'x'.repeat(64)}`, '/a~1b']);
  const many = Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`f${n}`, n]));
  expect(unknownMembers(many, REPORT)).toEqual(Array.from({ length: 10 }, (_, n) => `/f${n}`));
  expect(unknownMembers(null, REPORT)).toEqual([]);
});
