/** Tests the decompression of small bodies in one call. */
import { brotliCompressSync, deflateSync, gzipSync, inflateSync, zstdCompressSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { inflateSmall } from './inflate.ts';

const BYTES = Buffer.from('0123456789'.repeat(20_000));

test.each([
  ['gzip', gzipSync],
  ['deflate', deflateSync],
  ['zstd', zstdCompressSync],
])(
  '%s: decompresses a small body in one call, and leaves any other body to the stream',
  (coding, compress) => {
    const small = compress(BYTES);
    expect(inflateSmall(small, coding, BYTES.length)).toEqual(BYTES);
    expect(inflateSmall(small, coding, BYTES.length - 1)).toBeUndefined();
    expect(inflateSmall(small.subarray(0, -1), coding, BYTES.length)).toBeUndefined();
    expect(inflateSmall(Buffer.concat([small, Buffer.from('x')]), coding, BYTES.length)).toBeUndefined();
  },
);

test('leaves a body of many empty blocks to the stream, because it would block the event loop for seconds', () => {
  const blocks = Buffer.alloc(5 * 10_000, Buffer.from([0, 0, 0, 0xff, 0xff]));
  const body = Buffer.concat([Buffer.from([0x78, 0x9c]), blocks, Buffer.from([3, 0, 0, 0, 0, 1])]);
  expect(inflateSync(body)).toHaveLength(0);
  expect(inflateSmall(body, 'deflate', 1)).toBeUndefined();
});

test('never decompresses brotli in one call, because a hundred bytes would block the event loop', () => {
  expect(inflateSmall(brotliCompressSync(BYTES), 'br', BYTES.length)).toBeUndefined();
});
