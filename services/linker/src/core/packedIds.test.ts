/** Tests that the packed ids behave like a queue and a set, with any number of ids in the index. */
import { createHash } from 'node:crypto';
import { uuidV8 } from '@questlog/schemas/uuid';
import { expect, test } from 'vitest';
import { PackedIds } from './packedIds.ts';

const hashed = (n: number): string => uuidV8(createHash('sha256').update(String(n)).digest());
const counted = (n: number): string => `00000000-0000-4000-8000-${n.toString(16).padStart(12, '0')}`;
const timed = (n: number): string => `0197${n.toString(16).padStart(4, '0')}-0000-7000-8000-000000000000`;

test.each([
  ['hashed', hashed],
  ['that are consecutive', counted],
  ['that differ only in their time', timed],
])('finds exactly the present ids %s while it grows and while the oldest are dropped', (_, idOf) => {
  const ids = new PackedIds();
  let oldest = 0;
  for (let n = 0; n < 3_000; n++) {
    ids.add(idOf(n), Math.floor(n / 7), n);
    // Moves the oldest row to the middle of the full ring buffer.
    if (n < 50 || n % 3 === 0) continue;
    ids.dropOldest();
    oldest++;
    if (n % 97 !== 0) continue;
    for (let at = 0; at <= n + 5; at++)
      if (ids.has(idOf(at)) !== (at >= oldest && at <= n)) expect.fail(`${at} of ${oldest} to ${n}`);
    expect(ids.oldest).toEqual({ entry: Math.floor(oldest / 7), since: oldest, count: 7 - (oldest % 7) });
  }
  expect(ids.size).toBe(3_000 - oldest);
});

test('counts the ids of the oldest entry, without free rows', () => {
  const ids = new PackedIds();
  expect(ids.oldest).toBeUndefined();
  ids.add(hashed(1), 0, 5);
  ids.add(hashed(2), 0, 6);
  expect(ids.oldest).toEqual({ entry: 0, since: 5, count: 2 });
});

test('distinguishes ids that differ in a single bit', () => {
  const ids = new PackedIds();
  const id = 'ffffffff-ffff-4fff-8fff-ffffffffffff';
  ids.add(id, 0, 0);
  for (const [at, digit] of [...id].entries()) {
    if (digit !== 'f') continue;
    expect(ids.has(`${id.slice(0, at)}7${id.slice(at + 1)}`)).toBe(false);
  }
  expect(ids.has(id)).toBe(true);
});
