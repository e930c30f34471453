import { testCursorCipher } from '@questlog/runtime/cursors/cursorCiphers.testing';
import { expect, test } from 'vitest';
import { answeredEvent, encodePage, formatCursor, parseCursor } from './pages.ts';

const CURSOR = { micros: '-2208988800000000', partition: 3, offset: '12345678901', index: 499 };

test('a cursor survives encryption and decryption, also before 1970', async () => {
  const seal = await testCursorCipher();
  expect(parseCursor(formatCursor(CURSOR, seal), seal)).toEqual(CURSOR);
});

test('a cursor does not reveal its offset, not even by its length', async () => {
  const seal = await testCursorCipher();
  const [near, far] = ['7', '12345678901'].map((offset) => formatCursor({ ...CURSOR, offset }, seal));
  expect(near?.length).toBe(far?.length);
  expect(Buffer.from(far ?? '', 'base64url').toString('latin1')).not.toContain('12345678901');
});

test.each([
  '',
  'x',
  'MS4y',
  // This cursor has the unencrypted form, with which a client could try offsets.
  Buffer.from('1700000000000000.3.12345678901.4').toString('base64url'),
  'é',
])('%j is not a valid cursor', async (text) => {
  expect(parseCursor(text, await testCursorCipher())).toBeUndefined();
});

test('a page of a thousand events yields to the event loop, and has each event once, in order', async () => {
  const rows = Array.from({ length: 1_000 }, (_, at) => ({
    ...{ id: '01a214dc-6567-7000-9dec-b04c23790edd', sessionId: null, buildId: null, eventType: 'moved' },
    ...{ occurredAt: '0', payload: JSON.stringify({ text: 'x'.repeat(900) }), overQuota: false },
    sequence: String(at),
  }));
  let turns = 0;
  let isMade = false;
  const others = (): void => {
    turns += 1;
    if (!isMade) setImmediate(others);
  };
  setImmediate(others);
  const page = await encodePage(rows, (row) => ({ ...answeredEvent(row, 'B'), reportIds: [] }), 'next');
  isMade = true;
  const { events, next } = JSON.parse(page.toString());
  expect(next).toBe('next');
  expect(events.map(({ sequence }: { sequence: number }) => sequence)).toEqual(rows.map((_, at) => at));
  expect(turns).toBeGreaterThanOrEqual(10);
});
