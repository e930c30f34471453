import { expect, test } from 'vitest';
import { Generations } from './generations.ts';

test('owns nothing until the generation is known', () => {
  const generations = new Generations();
  expect(generations.join('m', [0, 1])).toEqual([]);
  expect([generations.owned(), generations.isSettled]).toEqual([[], false]);
  expect(generations.heartbeat('m', 1)).toEqual({ lost: [], gained: [0, 1] });
  expect([generations.owned(), generations.isSettled]).toEqual([[0, 1], true]);
  expect(generations.current).toEqual({ memberId: 'm', number: 1 });
});

test('keeps a partition in a rebalance and loses the other one as soon as the assignment arrives', () => {
  const generations = aMember([0, 1]);
  expect(generations.join('m', [1, 2])).toEqual([0]);
  expect([generations.owned(), generations.isSettled]).toEqual([[1], false]);
  expect(generations.heartbeat('m', 2)).toEqual({ lost: [], gained: [2] });
  expect(generations.owned()).toEqual([1, 2]);
});

test('keeps a partition over two rebalances that it took part in', () => {
  const generations = aMember([0, 1]);
  expect(generations.join('m', [1])).toEqual([0]);
  expect(generations.join('m', [0, 1])).toEqual([]);
  expect(generations.heartbeat('m', 3)).toEqual({ lost: [], gained: [0] });
});

test('restarts on a partition that another member may have owned in a missed generation', () => {
  const generations = aMember([0, 1]);
  generations.join('m', [0, 1]);
  expect(generations.heartbeat('m', 3)).toEqual({ lost: [0, 1], gained: [0, 1] });
  expect(generations.current?.number).toBe(3);
});

test('loses everything at once under a new member id', () => {
  const generations = aMember([0, 1]);
  expect(generations.join('n', [0, 1])).toEqual([0, 1]);
  expect(generations.current).toBeUndefined();
  expect(generations.heartbeat('m', 2)).toBeUndefined();
  expect(generations.heartbeat('n', 5)).toEqual({ lost: [], gained: [0, 1] });
});

test('ignores a late heartbeat of the previous generation', () => {
  const generations = aMember([0]);
  generations.join('m', [0, 1]);
  expect(generations.heartbeat('m', 1)).toBeUndefined();
  expect(generations.isSettled).toBe(false);
  expect(generations.heartbeat('m', 2)).toEqual({ lost: [], gained: [1] });
});

test('keeps its partitions if it rejoins the same generation', () => {
  const generations = aMember([0, 1]);
  expect(generations.join('m', [0, 1])).toEqual([]);
  expect([generations.heartbeat('m', 1), generations.isSettled]).toEqual([undefined, false]);
  expect(generations.heartbeat('m', 1)).toEqual({ lost: [], gained: [] });
  expect([generations.owned(), generations.isSettled]).toEqual([[0, 1], true]);
  expect(generations.join('m', [1])).toEqual([0]);
  expect(generations.heartbeat('m', 2)).toEqual({ lost: [], gained: [] });
});

test('loses everything with its session and owns the partitions that it is assigned again', () => {
  const generations = aMember([0, 1]);
  expect(generations.leave()).toEqual([0, 1]);
  expect([generations.owned(), generations.current]).toEqual([[], undefined]);
  generations.join('n', [1]);
  expect(generations.heartbeat('n', 9)).toEqual({ lost: [], gained: [1] });
});

test('returns no changes for heartbeats of a stable group', () => {
  const generations = aMember([0]);
  expect(generations.heartbeat('m', 1)).toBeUndefined();
  expect(generations.heartbeat('someone else', 7)).toBeUndefined();
  expect(generations.owned()).toEqual([0]);
});

/** Returns member `m` in generation 1. */
function aMember(owned: number[]): Generations {
  const generations = new Generations();
  generations.join('m', owned);
  generations.heartbeat('m', 1);
  return generations;
}
