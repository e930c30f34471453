import { testCursorCipher } from '@questlog/runtime/cursors/cursorCiphers.testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isStreamId, offsetsFrom, positionBytes, positionIn } from './streamId.ts';

const LOG = '0d5a7a3e-6d3c-4b1f-9e0a-5f6b7c8d9e0f';
const OTHER_LOG = 'ffffffff-6d3c-4b1f-9e0a-5f6b7c8d9e0f';
const TOPIC = { logId: LOG, startOffsets: [10, 0], endOffsets: [20, 5] };
const MAX_OFFSET = 2 ** 48 - 1;

test('an id is decoded to the position that it was made of, for every offset that a log can have', async () => {
  const cipher = await testCursorCipher();
  const offsets = fc.array(fc.nat(MAX_OFFSET), { minLength: 1, maxLength: 64 });
  fc.assert(
    fc.property(offsets, (nextOffsets) => {
      const position = { logId: LOG, nextOffsets };
      const id = cipher.encrypt(positionBytes(position));
      expect(isStreamId(id)).toBe(true);
      expect(positionIn(id, cipher)).toEqual(position);
    }),
    { examples: [[[0, 127, 128, MAX_OFFSET]]] },
  );
});

test('all ids have the same length for all offsets, and fit into a header with 64 partitions', async () => {
  const cipher = await testCursorCipher();
  const lengths = [0, 250_000_000, MAX_OFFSET].map((offset) => {
    const nextOffsets = Array.from({ length: 64 }, () => offset);
    return cipher.encrypt(positionBytes({ logId: LOG, nextOffsets })).length;
  });
  expect(new Set(lengths).size).toBe(1);
  expect(lengths[0]).toBeLessThan(600);
});

test('rejects ids that were truncated, changed, or invented', async () => {
  const id = (await testCursorCipher()).encrypt(positionBytes({ logId: LOG, nextOffsets: [300, 70_000] }));
  const madeUp = ['', 'start ', 'é', 'Ag', '17', id.slice(0, -1), `${id}=`, ` ${id}`, `B${id.slice(1)}`];
  for (const text of madeUp) expect(isStreamId(text), text).toBe(false);
  // The ids have an incomplete offset, no offset, and no offset in the unencrypted format.
  const bytes = Buffer.from(id, 'base64url');
  const short = [bytes.subarray(0, -1), bytes.subarray(0, -12), Buffer.alloc(17, 1)];
  for (const truncated of short)
    expect(isStreamId(truncated.toString('base64url')), `${truncated.length} bytes`).toBe(false);
});

test('an id that was not encrypted with this key starts at the oldest link: of another project, changed, or unencrypted', async () => {
  const [cipher, other] = [await testCursorCipher(), await testCursorCipher()];
  const bytes = positionBytes({ logId: LOG, nextOffsets: [300, 70_000] });
  const changed = Buffer.from(cipher.encrypt(bytes), 'base64url');
  changed[20] = (changed[20] ?? 0) ^ 1;
  const unsealed = Buffer.concat([Buffer.of(1), bytes.subarray(0, 16), Buffer.of(5, 7)]);
  for (const id of [other.encrypt(bytes), changed.toString('base64url'), unsealed.toString('base64url')]) {
    expect(isStreamId(id)).toBe(true);
    expect(positionIn(id, cipher)).toBe('start');
  }
});

test('an id resumes at its offsets, or after the expired records', () => {
  expect(offsetsFrom({ logId: LOG, nextOffsets: [12, 5] }, TOPIC)).toEqual([12, 5]);
  expect(offsetsFrom({ logId: LOG, nextOffsets: [3, 0] }, TOPIC)).toEqual([10, 0]);
});

test('an id of another log starts at the oldest link, because its offsets would skip new links', () => {
  expect(offsetsFrom({ logId: OTHER_LOG, nextOffsets: [15, 4] }, TOPIC)).toEqual([10, 0]);
  expect(offsetsFrom({ logId: OTHER_LOG, nextOffsets: [15] }, TOPIC)).toEqual([10, 0]);
});

test('an offset after the end of the log starts its partition at the oldest link, so that no link is missed', () => {
  expect(offsetsFrom({ logId: LOG, nextOffsets: [21, 4] }, TOPIC)).toEqual([10, 4]);
});

test('start is the oldest stored link, and end is the next link', () => {
  expect(offsetsFrom('start', TOPIC)).toEqual([10, 0]);
  expect(offsetsFrom('end', TOPIC)).toEqual([20, 5]);
});

test('rejects an id of this log with another number of partitions', () => {
  expect(offsetsFrom({ logId: LOG, nextOffsets: [12] }, TOPIC)).toBeUndefined();
});
