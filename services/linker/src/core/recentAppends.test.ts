/** Tests the cache of append ids across several owners and across an upgrade. Tests the contents of the changelog. */
import { createHash } from 'node:crypto';
import type { SeenAppends } from '@questlog/schemas/topics/linkerState';
import { uuidV8 } from '@questlog/schemas/uuid';
import { expect, test } from 'vitest';
import { SlotRing } from '../testing/slotRing.ts';
import { RecentAppends } from './recentAppends.ts';

/** Maximum number of ids of the previous version, which uses 6 slots of 10 ids. */
const MAX_IDS = 40;
const ALL_IDS = Array.from({ length: 5_000 }, (_, n) =>
  uuidV8(createHash('sha256').update(String(n)).digest()),
);
const idOf = (n: number): string => ALL_IDS[n] ?? '';
const ids = (from: number, count: number): string[] =>
  Array.from({ length: count }, (_, i) => idOf(from + i));

test('keeps the latest ids, evicts whole commits, and returns the time of the oldest id', () => {
  const partition = aPartition(new RecentAppends(5));
  partition.take(2, 3);
  expect(partition.memory.since).toBe(0);
  partition.take(2);
  // The first commit is evicted only if more than 5 ids remain without it.
  expect([partition.remembered(), partition.memory.since]).toEqual([ids(0, 7), 1_000]);
  partition.take(1);
  expect([partition.remembered(), partition.memory.since]).toEqual([ids(2, 6), 1_002]);
});

test('a commit is one entry, which is never rewritten, and the changelog contains exactly the cached ids', () => {
  const partition = aPartition(new RecentAppends(100));
  for (let commit = 0; commit < 1_000; commit++) expect(partition.take(3)).toHaveLength(1);
  expect(partition.held()).toEqual(partition.remembered());
  expect(partition.remembered()).toHaveLength(102);
  // The changelog contains only the keys that are in use.
  expect(partition.names.size).toBeLessThan(40);
});

test('freed keys that are not reused get a tombstone', () => {
  const partition = aPartition(new RecentAppends(10));
  for (let commit = 0; commit < 11; commit++) partition.take(1);
  const told = partition.take(10);
  expect(told.filter(([, held]) => held === null)).toHaveLength(9);
  expect(partition.held()).toEqual(partition.remembered());
});

test('splits a commit with many appends into entries below the topic’s limit', () => {
  const partition = aPartition(new RecentAppends(5_000));
  const told = partition.take(2_500);
  expect(told.map(([, held]) => held?.ids.length)).toEqual([1_000, 1_000, 500]);
});

test.each([0, 1, 3, 8, 40, 41, 57, 200])(
  'a new owner restores the ids of the old owner after %i appends',
  (count) => {
    const partition = aPartition(new RecentAppends(MAX_IDS));
    for (let at = 0; at < count; at += 3) partition.take(Math.min(3, count - at));
    const next = aPartition(new RecentAppends(MAX_IDS), partition);
    for (let more = 0; more < 60; more++) {
      expect(next.remembered()).toEqual(partition.remembered());
      expect(next.memory.since).toBe(partition.memory.since);
      next.take(1);
      partition.take(1);
    }
  },
);

// Partitions move between members of both versions in any order, with any number of commits between two moves.
test.each(Array.from({ length: 40 }, (_, seed) => seed))(
  'in a rolling upgrade, neither version misses appends of the other or overestimates its cache (%i)',
  (seed) => {
    const draw = drawsOf(seed);
    let partition: Partition | undefined;
    for (let owner = 0; owner < 25; owner++) {
      const isNew = draw(2) === 0;
      partition = aPartition(isNew ? new RecentAppends(MAX_IDS) : new SlotRing(6, 10), partition);
      const commits = draw(4) === 0 ? draw(60) : draw(8);
      for (let commit = 0; commit < commits; commit++) {
        partition.take(1 + draw(4));
        const { memory, taken } = partition;
        const lastForgotten = ALL_IDS.findLastIndex((id, n) => n < taken && !memory.has(id));
        expect(lastForgotten).toBeLessThan(Math.max(0, taken - MAX_IDS));
        if (lastForgotten >= 0) expect(memory.since).toBeGreaterThan(arrivalOf(lastForgotten));
      }
    }
  },
);

const arrivalOf = (n: number): number => 1_000 + n;

type Partition = ReturnType<typeof aPartition>;

/** Returns an owner of the partition. The owner restores its state from the changelog of the previous owner (`before`). */
function aPartition(
  memory: RecentAppends | SlotRing,
  before?: { changelog: Map<string, SeenAppends>; taken: number },
) {
  const changelog = new Map(before?.changelog);
  for (const [name, held] of changelog) memory.restore(name, held);
  const names = new Set<string>();
  let taken = before?.taken ?? 0;
  return {
    memory,
    changelog,
    names,
    get taken() {
      return taken;
    },
    /** Adds appends. Makes one commit for each of the counts. */
    take(...counts: number[]) {
      return counts.flatMap((count) => {
        for (let i = 0; i < count; i++) memory.add(idOf(taken + i), arrivalOf(taken + i));
        taken += count;
        const told = memory.drain();
        for (const [name, held] of told) {
          names.add(name);
          changelog.delete(name);
          if (held !== null) changelog.set(name, held);
        }
        return told;
      });
    },
    remembered: () => ids(0, taken).filter((id) => memory.has(id)),
    held: () => [...changelog.values()].flatMap((held) => held.ids),
  };
}

function drawsOf(seed: number): (below: number) => number {
  let state = seed + 1;
  return (below) => {
    state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9;
    return ((state ^ (state >>> 13)) >>> 0) % below;
  };
}
