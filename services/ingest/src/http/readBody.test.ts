/** Tests bodies that cost the process more than they cost their client. */
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { brotliCompressSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { inflate } from '@questlog/runtime/process/inflate';
import { freeChunk } from '@questlog/schemas/buffers';
import { expect, test } from 'vitest';
import { EventLoopQueue, openBodyLimits } from '../limits/fairSharing.ts';
import { withBody } from './readBody.ts';

const MIB = 1024 * 1024;
/** Returns a zstd frame of `{}` with a window of `2 ** log` bytes (RFC 8878, section 3.1.1). */
const windowOf = (log: number): Buffer =>
  Buffer.concat([Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, (log - 10) << 3, 0x11, 0, 0]), Buffer.from('{}')]);

test('accepts a zstd window of 8 MiB, and rejects a larger one (RFC 9659)', async () => {
  expect(await reading(windowOf(23), 'zstd').length).toBe(2);
  await expect(reading(windowOf(24), 'zstd').length).rejects.toMatchObject({ code: 'invalid_encoding' });
});

test('frees a chunk while the rest is inflated', async () => {
  const bytes = Buffer.from('0123456789'.repeat(20_000));
  const found: Buffer[] = [];
  let freed = 0;
  for await (const chunk of inflate([gzipSync(bytes)], 'gzip')) {
    found.push(Buffer.from(chunk));
    freeChunk(chunk);
    freed += chunk.length === 0 ? 1 : 0;
  }
  expect(Buffer.concat(found)).toEqual(bytes);
  expect(freed).toBe(Math.floor(bytes.length / (64 * 1024)));
});

test.each([
  ['br', brotliCompressSync],
  ['gzip', gzipSync],
  ['zstd', zstdCompressSync],
])('copies a small body in %s out of the large buffer of its decoder', async (coding, compress) => {
  const { length, bufferBytes } = reading(compress(Buffer.alloc(200, ' ')), coding);
  expect([await length, bufferBytes()]).toEqual([200, 200]);
});

test('rejects a body with too many zstd frames', async () => {
  const frame = zstdCompressSync(Buffer.from('x'));
  const frames = (count: number): Buffer => Buffer.concat(Array<Buffer>(count).fill(frame));
  expect(await reading(frames(16), 'zstd').length).toBe(16);
  await expect(reading(frames(17), 'zstd').length).rejects.toMatchObject({ code: 'invalid_encoding' });
});

test.each([
  ['gzip', gzipSync],
  ['zstd', zstdCompressSync],
])('stops inflating a body in %s after its client has disconnected', async (coding, compress) => {
  const { length, mostBytes } = reading(compress(Buffer.alloc(7 * MIB)), coding, (request) => {
    request.socket.destroyed = true;
  });
  await expect(length).rejects.toMatchObject({ code: 'invalid_request' });
  expect(mostBytes()).toBeLessThan(MIB);
});

test('skips a large body that waited if its client has disconnected, but stores a small one', async () => {
  const turns = new EventLoopQueue();
  for (let n = 0; n < 50; n++) void turns.take('another tenant', MIB);
  const leave = ({ socket }: { socket: { destroyed: boolean } }) => {
    socket.destroyed = true;
  };
  const [leaves, stays] = [leave, () => {}].map((onSent) =>
    reading(Buffer.alloc(MIB, ' '), '', onSent, turns),
  );
  const ends = reading(Buffer.from('[]'), '', leave, turns);
  await expect(leaves?.length).rejects.toMatchObject({ code: 'invalid_request' });
  expect(await Promise.all([stays?.length, ends.length])).toEqual([MIB, 2]);
});

/** @param onSent called after the complete body was sent */
function reading(
  sent: Buffer,
  coding: string,
  onSent: (request: { socket: { destroyed: boolean } }) => void = () => {},
  turns = new EventLoopQueue(),
) {
  let most = 0;
  let buffer = 0;
  const bodies = openBodyLimits({ set: (bytes) => (most = Math.max(most, bytes)) });
  const request = Object.assign(Readable.from([sent]), {
    headers: { 'content-type': 'application/json', 'content-encoding': coding },
    socket: { destroyed: false },
    complete: true,
  });
  request.on('end', () => onSent(request));
  const length = withBody(
    request as unknown as IncomingMessage,
    'a tenant',
    { ...bodies, queue: turns },
    async (body) => {
      buffer = body.buffer.byteLength;
      return body.length;
    },
  );
  return { length, mostBytes: () => most, bufferBytes: () => buffer };
}
