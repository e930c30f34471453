/** Tests pages, and the cursors that connect them. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { newestFirstPage, newestFirstParams, readNewestFirst } from './newestFirst.ts';

const ROWS = Array.from({ length: 3 }, (_, n) => ({ id: randomUUID(), millis: String(1_000 - n) }));

test('the cursor of a page continues after its last row', () => {
  const first = readNewestFirst({ limit: '2', cursor: undefined });
  const { rows, next } = newestFirstPage(ROWS, first, (row) => row);
  expect(rows).toEqual(ROWS.slice(0, 2));
  const second = readNewestFirst({ limit: '2', cursor: next ?? undefined });
  expect(newestFirstParams(second)).toEqual({ ...ROWS[1], limit: 3 });
});

test('a page of one row ends with that row', () => {
  const page = readNewestFirst({ limit: '1', cursor: undefined });
  const { next } = newestFirstPage(ROWS, page, (row) => row);
  expect(readNewestFirst({ limit: '1', cursor: next ?? undefined }).before).toEqual(ROWS[0]);
});

test('the last page has no cursor', () => {
  const page = readNewestFirst({ limit: '3', cursor: undefined });
  expect(newestFirstPage(ROWS, page, (row) => row)).toEqual({ rows: ROWS, next: null });
});

test('the first page starts with the newest row, and the default limit is 100', () => {
  const first = readNewestFirst({ limit: undefined, cursor: undefined });
  expect(newestFirstParams(first)).toEqual({
    millis: '9223372036854775807',
    id: 'ffffffff-ffff-ffff-ffff-ffffffffffff',
    limit: 101,
  });
  const limitOf = (limit: string) => readNewestFirst({ limit, cursor: undefined }).limit;
  expect(['1', '1000'].map(limitOf)).toEqual([1, 1_000]);
});

test.each([
  '',
  'x',
  'MS4y',
  Buffer.from(`1.${randomUUID()};DROP`).toString('base64url'),
  Buffer.from(`x1.${randomUUID()}`).toString('base64url'),
  'é',
])('%j is not a valid cursor', (cursor) => {
  expect(() => readNewestFirst({ limit: undefined, cursor })).toThrow(
    expect.objectContaining({ code: 'invalid_request' }),
  );
});

test.each(['0', '1001', '-1', '1.5', 'x', ''])('%j is not a valid limit', (limit) => {
  expect(() => readNewestFirst({ limit, cursor: undefined })).toThrow(
    expect.objectContaining({ code: 'invalid_request', message: expect.stringMatching(/from 1 to 1000/) }),
  );
});
