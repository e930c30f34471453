import { Buffer } from 'node:buffer';
import zlib from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { decodeContent } from './requestBody.ts';

const parts = [
  Buffer.from('first '.repeat(1000)),
  Buffer.from('second'),
  Buffer.from(' third'.repeat(50_000)),
];
const whole = Buffer.concat(parts);

const compressed: readonly (readonly [coding: string, bytes: Buffer])[] = [
  ['gzip', zlib.gzipSync(whole)],
  ['gzip', Buffer.concat(parts.map((part) => zlib.gzipSync(part)))],
  ['deflate', zlib.deflateSync(whole)],
  ['br', zlib.brotliCompressSync(whole)],
  ['br', Buffer.concat(parts.map((part) => zlib.brotliCompressSync(part)))],
  ['zstd', zlib.zstdCompressSync(whole)],
  ['zstd', Buffer.concat(parts.map((part) => zlib.zstdCompressSync(part)))],
  ['identity', whole],
  ['', whole],
];

describe.each(compressed)('%s', (coding, bytes) => {
  test.each([7, 1000, 65_536, 1e9])('is decoded completely from chunks of %d bytes', async (size) => {
    expect(await decode(coding, bytes, size)).toEqual(whole);
  });
});

test.each(['gzip', 'deflate', 'br', 'zstd'])('an incomplete %s body is an error', async (coding) => {
  const bytes = compressed.find(([name]) => name === coding)?.[1];
  await expect(decode(coding, bytes?.subarray(0, -4) ?? whole, 1000)).rejects.toMatchObject({ code: 271 });
});

test.each(['gzip', 'deflate', 'br', 'zstd'])('a body that is not %s is an error', async (coding) => {
  await expect(decode(coding, Buffer.from('not compressed at all'), 1000)).rejects.toMatchObject({
    code: 271,
  });
});

test('bytes after the end of a gzip member are an error and not dropped', async () => {
  const bytes = Buffer.concat([zlib.gzipSync(whole), Buffer.from('more')]);
  await expect(decode('gzip', bytes, 1e9)).rejects.toMatchObject({ code: 271 });
});

test.each(['lz4', 'snappy'])('rejects %s, and names the supported codings', (coding) => {
  expect(() => decodeContent(chunked(whole, 10), coding)).toThrow(
    `Unknown compression method '${coding}'. The embedded ClickHouse supports gzip, deflate, br, zstd, and none`,
  );
});

async function decode(coding: string, bytes: Buffer, chunkBytes: number): Promise<Buffer> {
  const output: Buffer[] = [];
  for await (const chunk of decodeContent(chunked(bytes, chunkBytes), coding)) output.push(chunk);
  return Buffer.concat(output);
}

async function* chunked(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}
