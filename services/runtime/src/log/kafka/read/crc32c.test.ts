import { expect, test } from 'vitest';
import { crc32c } from './crc32c.ts';

/** Examples from RFC 3720, section B.4. */
test.each<[string, Uint8Array, number]>([
  ['32 bytes of zeros', Buffer.alloc(32), 0x8a9136aa],
  ['32 bytes of ones', Buffer.alloc(32, 0xff), 0x62a8ab43],
  ['32 bytes that ascend', Uint8Array.from({ length: 32 }, (_, index) => index), 0x46dd794e],
  ['nine digits', Buffer.from('123456789'), 0xe3069283],
  ['nothing', Buffer.alloc(0), 0],
])('matches the standard for %s', (_, bytes, checksum) => {
  expect(crc32c(bytes)).toBe(checksum);
});

test('covers the given part of the bytes at any alignment', () => {
  const bytes = Buffer.from(`${'before, '.repeat(3)}123456789 and behind`);
  for (let shift = 0; shift < 16; shift += 1) {
    const moved = Buffer.concat([Buffer.alloc(shift), bytes]);
    expect(crc32c(moved, shift + 24, shift + 33)).toBe(0xe3069283);
  }
});
