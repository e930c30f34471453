import { expect, test } from 'vitest';
import { formatCursor, parseCursor } from './pages.ts';

test('a cursor comes back as it went out, also before 1970', () => {
  const cursor = { micros: '-2208988800000000', partition: 3, offset: '12345678901', index: 499 };
  expect(parseCursor(formatCursor(cursor))).toEqual(cursor);
});

test.each(['', 'x', 'MS4y', Buffer.from('1.2.3.4;DROP').toString('base64url'), 'é'])(
  '%j is no cursor',
  (text) => {
    expect(parseCursor(text)).toBeUndefined();
  },
);
