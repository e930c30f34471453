/** Tests the problems of invalid bodies. */
import { EXAMPLE_SESSION, EXAMPLE_TIME, Nullable, Timestamp, Uuid } from '@questlog/schemas/http/fields';
import Type from 'typebox';
import { Compile } from 'typebox/compile';
import { expect, test } from 'vitest';
import {
  bodyRejection,
  checkedFields,
  fieldProblems,
  isObject,
  objectOf,
  problem,
  timestampField,
} from './fieldProblems.ts';
import { scanObject } from './scanObject.ts';

const SCHEMA = Type.Object(
  {
    id: Type.Optional(Type.String({ pattern: '^[0-9a-f]+$' })),
    build: Type.Object({ version: Type.String(), channel: Type.Optional(Type.Enum(['prod', 'beta'])) }),
    nothing: Type.Optional(Type.Null()),
    at: Type.Optional(Timestamp),
    until: Type.Optional(Nullable(Timestamp)),
    ids: Type.Optional(Type.Array(Uuid)),
  },
  { additionalProperties: false },
);

function toldOf(body: object): string[][] {
  const found = fieldProblems(Compile(SCHEMA), body);
  return found.map(({ pointer, code, detail }) => [pointer, code, detail]).toSorted();
}

test('names a missing field with its object', () => {
  expect(toldOf({})).toEqual([['/build', 'field_required', 'build is required']]);
  expect(toldOf({ build: {} })).toEqual([['/build/version', 'field_required', 'build.version is required']]);
});

test.each([
  [{ id: 'x' }, ['/id', 'invalid_uuid', `id must be a UUID, such as ${EXAMPLE_SESSION}`]],
  [{ at: 1 }, ['/at', 'field_type', `at must be a string such as "${EXAMPLE_TIME}"`]],
  [{ until: 1 }, ['/until', 'field_type', `until must be a string such as "${EXAMPLE_TIME}"`]],
  [{ ids: [7] }, ['/ids/0', 'field_type', `ids.0 must be a string such as "${EXAMPLE_SESSION}"`]],
  [{ titel: 1 }, ['/titel', 'field_invalid', 'there is no field titel']],
  [{ nothing: 1 }, ['/nothing', 'field_type', 'nothing must be null']],
  [{ build: [] }, ['/build', 'field_type', 'build must be an object']],
  [
    { build: { version: '1', channel: 'x' } },
    ['/build/channel', 'field_invalid', 'build.channel must be one of prod, beta'],
  ],
])('reports one problem of %j', (wrong, told) => {
  expect(toldOf({ build: { version: '1' }, ...wrong })).toEqual([told]);
});

test('omits a field with a problem, so that the others can be checked', () => {
  const given = { build: { version: '1' }, id: 'x' };
  expect(checkedFields(Compile(SCHEMA), given).value).toEqual({ build: { version: '1' } });
});

test('a rejection has the code of its only kind of problem, and counts the others', () => {
  const tooLarge = (name: string) => problem(`/${name}`, 'field_too_large', `${name} is too large`);
  const [large, larger] = [tooLarge('f1'), tooLarge('f2')];
  const wrong = problem('/f3', 'field_invalid', 'f3 is wrong');
  const empty = problem('', 'empty_report', 'there is nothing in it');
  const told = (...errors: Parameters<typeof bodyRejection>[0]) => {
    const { code, message } = bodyRejection(errors);
    return [code, message];
  };
  expect(told(large)).toEqual(['field_too_large', 'f1 is too large; nothing was stored']);
  expect(told(large, larger)).toEqual([
    'field_too_large',
    'f1 is too large (and 1 more); nothing was stored',
  ]);
  const event = problem('', 'event_too_large', 'the event is too large');
  expect(told(event, large)[0]).toBe('event_too_large');
  expect(told(large, wrong)).toEqual(['invalid_request', 'f3 is wrong (and 1 more); nothing was stored']);
  expect(told(empty)).toEqual(['empty_report', 'there is nothing in it; nothing was stored']);
  expect(told(empty, wrong)[0]).toBe('invalid_request');
  const elsewhere = problem('/sessionId', 'unknown_session', 'there is no such session');
  const forbidden = problem('/buildId', 'build_not_allowed', 'the token is for other builds');
  expect(told(elsewhere)[0]).toBe('unknown_session');
  expect(told(elsewhere, forbidden)[0]).toBe('build_not_allowed');
  expect(told(elsewhere, forbidden, large)[0]).toBe('field_too_large');
});

test('reports the offset of invalid JSON, and the kind of a body that is not an object', () => {
  const object = (text: string) => () => objectOf(scanObject(Buffer.from(text), {}));
  expect(object('{"a":')).toThrow(expect.objectContaining({ code: 'invalid_json', failedAt: 5 }));
  expect(object('[]')).toThrow(expect.objectContaining({ code: 'invalid_request' }));
  expect(object('{}')).not.toThrow();
  expect([{}, [], null, 'text'].map(isObject)).toEqual([true, false, false, false]);
});

test('parses a timestamp to microseconds, or rejects it by its name', () => {
  expect(timestampField('since', '1970-01-01T00:00:01Z')).toBe(1_000_000n);
  const refused = (text: string) => () => timestampField('since', text);
  const naming = (code: string) => expect.objectContaining({ errors: [expect.objectContaining({ code })] });
  expect(refused('today')).toThrow(`since must be an ISO 8601 timestamp, such as ${EXAMPLE_TIME}`);
  expect(refused('today')).toThrow(naming('invalid_timestamp'));
  expect(refused('1899-12-31')).toThrow(naming('timestamp_out_of_range'));
});
