import { expect, test } from 'vitest';
import { aSeal } from '../places/seals.testing.ts';
import { formatCursor, parseCursor } from './pages.ts';

const CURSOR = { micros: '-2208988800000000', partition: 3, offset: '12345678901', index: 499 };

test('a cursor comes back as it went out, also before 1970', async () => {
  const seal = await aSeal();
  expect(parseCursor(formatCursor(CURSOR, seal), seal)).toEqual(CURSOR);
});

test('a cursor does not show its offset, not by its length either', async () => {
  const seal = await aSeal();
  const [near, far] = ['7', '12345678901'].map((offset) => formatCursor({ ...CURSOR, offset }, seal));
  expect(near?.length).toBe(far?.length);
  expect(Buffer.from(far ?? '', 'base64url').toString('latin1')).not.toContain('12345678901');
});

test.each([
  '',
  'x',
  'MS4y',
  // What a cursor was before it was sealed: a client could try offsets with it.
  Buffer.from('1700000000000000.3.12345678901.4').toString('base64url'),
  'é',
])('%j is no cursor', async (text) => {
  expect(parseCursor(text, await aSeal())).toBeUndefined();
});
