/** Tests the filters of list queries. */
import { expect, test } from 'vitest';
import { Rejected } from '../rejected.ts';
import { choiceFilter, textFilter, timeFilter, uuidFilter, whereClause } from './listFilters.ts';

test('uses only the conditions of given filters, including an empty text', () => {
  const conditions = { a: 'a = {a:String}', b: 'b = {b:String}', c: 'c = {c:String}' };
  expect(whereClause({ a: '', b: undefined, c: 'x' }, conditions)).toBe(
    'AND a = {a:String} AND c = {c:String}',
  );
  expect(whereClause({ a: undefined, b: undefined, c: undefined }, conditions)).toBe('');
});

test('ignores an omitted filter', () => {
  const none = [uuidFilter('x', undefined), timeFilter('x', undefined), textFilter('x', undefined, 1)];
  expect([...none, choiceFilter('x', undefined, ['y'])]).toEqual([
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
});

test('parses a time to microseconds, also before 1970', () => {
  expect(timeFilter('since', '1969-12-31T23:59:59.999999Z')).toBe('-1');
});

test('counts characters of a text, not UTF-16 units', () => {
  expect(textFilter('fingerprint', '🎮🎮', 2)).toBe('🎮🎮');
  expect(() => textFilter('fingerprint', '🎮🎮🎮', 2)).toThrow(Rejected);
});

test('rejects an invalid filter by its name', () => {
  const refusal = (message: string) => expect.objectContaining({ code: 'invalid_request', message });
  expect(() => uuidFilter('sessionId', 'x')).toThrow(
    refusal('sessionId: a UUID, such as 7846b5f4-39dd-4381-b200-dbc9f59749ad'),
  );
  expect(() => choiceFilter('state', 'z', ['x', 'y'])).toThrow(refusal('state: one of x, y'));
  expect(() => textFilter('title', '', 9)).toThrow(refusal('title: 1 to 9 characters'));
});

test('normalizes a filter as the table does', () => {
  expect(uuidFilter('sessionId', '7846B5F4-39DD-4381-B200-DBC9F59749AD')).toBe(
    '7846b5f4-39dd-4381-b200-dbc9f59749ad',
  );
  expect(choiceFilter('state', 'y', ['x', 'y'])).toBe('y');
  expect(textFilter('title', 'x', 9)).toBe('x');
});
