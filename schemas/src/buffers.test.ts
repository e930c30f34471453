import { expect, test } from 'vitest';
import { freeBytes, freeChunk } from './buffers.ts';

test('frees large buffers immediately, but not buffers that share memory', () => {
  const large = Buffer.allocUnsafe(200_000);
  freeBytes(large.subarray(0, 150_000));
  expect(large).toHaveLength(0);

  const pooled = Buffer.allocUnsafe(20_000).fill(7);
  expect(pooled.buffer.byteLength).toBeGreaterThan(pooled.length);
  freeBytes(pooled);
  expect(pooled).toEqual(Buffer.alloc(20_000, 7));
});

test('frees only chunks that fill their memory, because a stream may write behind a shorter chunk', () => {
  const memory = Buffer.alloc(200_000, 7);
  freeChunk(memory.subarray(0, 150_000));
  expect(memory[0]).toBe(7);
  freeChunk(memory.subarray());
  expect(memory).toHaveLength(0);
});
