import fc from 'fast-check';
import { expect, test } from 'vitest';
import { formatToken, offsetsFrom, parseToken } from './linkedEventToken.ts';

const LOG = '0d5a7a3e-6d3c-4b1f-9e0a-5f6b7c8d9e0f';
const OTHER_LOG = 'ffffffff-6d3c-4b1f-9e0a-5f6b7c8d9e0f';
const TOPIC = { logId: LOG, startOffsets: [10, 0], endOffsets: [20, 5] };

test('a token comes back as the position it was made of, for any offset a log can have', () => {
  fc.assert(
    fc.property(fc.array(fc.maxSafeNat(), { minLength: 1, maxLength: 64 }), (nextOffsets) => {
      const position = { logId: LOG, nextOffsets };
      expect(parseToken(formatToken(position))).toEqual(position);
    }),
    { examples: [[[0, 127, 128, 16_383, 16_384, Number.MAX_SAFE_INTEGER]]] },
  );
});

test('a token stays small enough for a header: 64 partitions with millions of records each', () => {
  const nextOffsets = Array.from({ length: 64 }, (_, partition) => 250_000_000 + partition);
  expect(formatToken({ logId: LOG, nextOffsets }).length).toBeLessThan(400);
});

test('a token that was cut, mangled or made up is none, instead of a wrong place in the log', () => {
  const token = formatToken({ logId: LOG, nextOffsets: [300, 70_000] });
  const withEndlessNumber = Buffer.concat([Buffer.of(1), Buffer.alloc(16, 7), Buffer.alloc(9, 0xff)]);
  const madeUp = [
    '',
    'start ',
    'é',
    'AQ',
    token.slice(0, -1),
    `${token}=`,
    ` ${token}`,
    `B${token.slice(1)}`,
  ];
  for (const text of [...madeUp, withEndlessNumber.toString('base64url')]) {
    expect(parseToken(text), text).toBeUndefined();
  }
});

test('random bytes as a token are refused or are the position that they encode', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
      const text = Buffer.from([1, ...bytes]).toString('base64url');
      const position = parseToken(text);
      expect(position === undefined || formatToken(position) === text).toBe(true);
    }),
  );
});

test('a token goes on where it was, and past what retention removed', () => {
  expect(offsetsFrom({ logId: LOG, nextOffsets: [12, 5] }, TOPIC)).toEqual([12, 5]);
  expect(offsetsFrom({ logId: LOG, nextOffsets: [3, 0] }, TOPIC)).toEqual([10, 0]);
});

test('a token of another log starts at the oldest: its offsets would skip new links', () => {
  expect(offsetsFrom({ logId: OTHER_LOG, nextOffsets: [15, 4] }, TOPIC)).toEqual([10, 0]);
  expect(offsetsFrom({ logId: OTHER_LOG, nextOffsets: [15] }, TOPIC)).toEqual([10, 0]);
});

test('an offset that the log does not have yet starts its partition at the oldest, so that nothing is missed', () => {
  expect(offsetsFrom({ logId: LOG, nextOffsets: [21, 4] }, TOPIC)).toEqual([10, 4]);
});

test('start is the oldest kept, end is what comes from now on', () => {
  expect(offsetsFrom('start', TOPIC)).toEqual([10, 0]);
  expect(offsetsFrom('end', TOPIC)).toEqual([20, 5]);
});

test('a token of this log with another number of partitions is refused', () => {
  expect(offsetsFrom({ logId: LOG, nextOffsets: [12] }, TOPIC)).toBeUndefined();
});
