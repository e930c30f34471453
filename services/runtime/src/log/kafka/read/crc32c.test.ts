import { expect, test } from 'vitest';
import { crc32c } from './crc32c.ts';

/** The examples of RFC 3720, B.4. */
test.each<[string, Uint8Array, number]>([
  ['32 bytes of zeros', Buffer.alloc(32), 0x8a9136aa],
  ['32 bytes of ones', Buffer.alloc(32, 0xff), 0x62a8ab43],
  ['32 bytes that ascend', Uint8Array.from({ length: 32 }, (_, index) => index), 0x46dd794e],
  ['nine digits', Buffer.from('123456789'), 0xe3069283],
  ['nothing', Buffer.alloc(0), 0],
])('is what the standard says of %s', (_, bytes, checksum) => {
  expect(crc32c(bytes)).toBe(checksum);
});

test('is of a part, wherever in the bytes it lies', () => {
  const bytes = Buffer.from(`${'before, '.repeat(3)}123456789 and behind`);
  for (let shift = 0; shift < 16; shift += 1) {
    const moved = Buffer.concat([Buffer.alloc(shift), bytes]);
    expect(crc32c(moved, shift + 24, shift + 33)).toBe(0xe3069283);
  }
});
