import { expect, test } from 'vitest';
import { type AssignedMember, assignPartitions } from './assignPartitions.ts';

test('assigns every partition to one member, evenly, for any claims', () => {
  const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 1e9));
  const random = randomFrom(seed);
  for (let round = 0; round < 500; round += 1) {
    const first = random(3);
    const partitions = Array.from({ length: random(40) }, (_, index) => first + index);
    const members = Array.from({ length: 1 + random(8) }, (_, index) => ({
      id: `member-${random(1000)}-${index}`,
      owned: Array.from({ length: random(12) }, () => random(45) - 2),
    }));
    const assigned = [...assignPartitions(members, partitions).values()];
    const all = assigned.flat().sort((a, b) => a - b);
    const sizes = assigned.map((own) => own.length);
    const because = `SEED=${seed} ${JSON.stringify({ members, partitions })}`;
    expect(all, because).toEqual(partitions);
    expect(Math.max(...sizes) - Math.min(...sizes), because).toBeLessThanOrEqual(1);
    expect(assigned, because).toHaveLength(members.length);
  }
});

test('keeps the assignment if the members do not change', () => {
  const before = settled([aMember('a'), aMember('b'), aMember('c')], 8);
  expect(settled(before, 8)).toEqual(before);
});

test('moves to a new member only its share, from members above their share', () => {
  const before = settled([aMember('b'), aMember('c')], 9);
  const after = settled([...before, aMember('a')], 9);
  expect(sizesOf(after)).toEqual([3, 3, 3]);
  expect(moved(before, after)).toBe(3);
});

test('assigns neighboring partitions, the lanes of a tenant, to different members', () => {
  const alone = settled([aMember('a')], 8);
  const joined = settled([...alone, aMember('b')], 8);
  expect(joined.map(({ owned }) => owned)).toEqual([
    [0, 2, 4, 6],
    [1, 3, 5, 7],
  ]);
  const together = settled([aMember('a'), aMember('b'), aMember('c')], 6);
  for (const { owned } of together) expect(owned[1]).toBe((owned[0] ?? 0) + 3);
});

test('reassigns the partitions of a member that left without other moves', () => {
  const before = settled([aMember('a'), aMember('b'), aMember('c')], 8);
  const after = settled(before.slice(1), 8);
  expect(sizesOf(after)).toEqual([4, 4]);
  expect(moved(before.slice(1), after)).toBe(0);
});

test('assigns a partition that two members claim to one of them', () => {
  const assigned = assignPartitions([aMember('b', [0, 1]), aMember('a', [1, 0])], [0, 1]);
  expect([...assigned.values()].flat().sort()).toEqual([0, 1]);
});

test('returns the same assignment for any order of the members', () => {
  const members = [aMember('a', [3]), aMember('b'), aMember('c', [0, 1, 2])];
  const orders = [members, members.toReversed()];
  const [one, other] = orders.map((order) => Object.fromEntries(assignPartitions(order, numbers(7))));
  expect(one).toEqual(other);
});

function aMember(id: string, owned: number[] = []): AssignedMember {
  return { id, owned };
}

function settled(members: readonly AssignedMember[], partitions: number): AssignedMember[] {
  return [...assignPartitions(members, numbers(partitions))].map(([id, owned]) => ({ id, owned }));
}

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index);
}

function sizesOf(members: readonly AssignedMember[]): number[] {
  return members.map(({ owned }) => owned.length);
}

/** Returns the number of partitions that members have lost, in total. */
function moved(before: readonly AssignedMember[], after: readonly AssignedMember[]): number {
  return before.reduce((sum, { id, owned }) => {
    const now = after.find((member) => member.id === id)?.owned ?? [];
    return sum + owned.filter((partition) => !now.includes(partition)).length;
  }, 0);
}

/** Returns a generator of integers below a bound (Park and Miller). The same seed returns the same numbers. */
function randomFrom(seed: number): (bound: number) => number {
  let state = (seed % 2147483646) + 1;
  return (bound) => {
    state = (state * 48271) % 2147483647;
    return state % bound;
  };
}
