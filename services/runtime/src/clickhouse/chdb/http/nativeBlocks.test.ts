import { expect, test } from 'vitest';
import { nativeBlocks } from './nativeBlocks.ts';

/** Returns the start of a block with one row and one column, up to the name of the column's type. */
function blockStart(type: string): Buffer {
  return Buffer.concat([Buffer.of(1, 1, 1, 0x76), varint(type.length), Buffer.from(type)]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) + 128);
  return Buffer.of(...bytes, value);
}

test('a block of any size is sent without collecting it in memory', async () => {
  const chunk = Buffer.alloc(256 * 1024);
  let unsentBytes = 0;
  let maxUnsentBytes = 0;
  async function* source() {
    yield Buffer.concat([blockStart('String'), varint(100 * chunk.length)]);
    for (let at = 0; at < 100; at += 1) {
      unsentBytes += chunk.length;
      maxUnsentBytes = Math.max(maxUnsentBytes, unsentBytes);
      yield chunk;
    }
  }
  for await (const part of nativeBlocks(source(), 54_460)) unsentBytes -= part.length;
  expect(maxUnsentBytes).toBeLessThanOrEqual(chunk.length);
});

test('an incomplete block is an error', async () => {
  const read = async () => {
    for await (const part of nativeBlocks(source(), 54_460)) void part;
  };
  async function* source() {
    yield Buffer.concat([blockStart('UInt64'), Buffer.alloc(7)]);
  }
  await expect(read()).rejects.toThrow('the result ends inside a block');
});
