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

test('keeps a partition over a rebalance that left it, and loses the other as soon as it is known', () => {
  const generations = aMember([0, 1]);
  expect(generations.join('m', [1, 2])).toEqual([0]);
  expect([generations.owned(), generations.isSettled]).toEqual([[1], false]);
  expect(generations.heartbeat('m', 2)).toEqual({ lost: [], gained: [2] });
  expect(generations.owned()).toEqual([1, 2]);
});

test('keeps a partition over two rebalances that it saw both', () => {
  const generations = aMember([0, 1]);
  expect(generations.join('m', [1])).toEqual([0]);
  expect(generations.join('m', [0, 1])).toEqual([]);
  expect(generations.heartbeat('m', 3)).toEqual({ lost: [], gained: [0] });
});

test('begins anew on a partition that another may have had in a generation that it did not see', () => {
  const generations = aMember([0, 1]);
  generations.join('m', [0, 1]);
  expect(generations.heartbeat('m', 3)).toEqual({ lost: [0, 1], gained: [0, 1] });
  expect(generations.current?.number).toBe(3);
});

test('loses everything under a new member id, at once', () => {
  const generations = aMember([0, 1]);
  expect(generations.join('n', [0, 1])).toEqual([0, 1]);
  expect(generations.current).toBeUndefined();
  expect(generations.heartbeat('m', 2)).toBeUndefined();
  expect(generations.heartbeat('n', 5)).toEqual({ lost: [], gained: [0, 1] });
});

test('does not take a late heartbeat of the generation before for the new one', () => {
  const generations = aMember([0]);
  generations.join('m', [0, 1]);
  expect(generations.heartbeat('m', 1)).toBeUndefined();
  expect(generations.isSettled).toBe(false);
  expect(generations.heartbeat('m', 2)).toEqual({ lost: [], gained: [1] });
});

test('goes on when it joins again and gets the same generation', () => {
  const generations = aMember([0, 1]);
  expect(generations.join('m', [0, 1])).toEqual([]);
  expect([generations.heartbeat('m', 1), generations.isSettled]).toEqual([undefined, false]);
  expect(generations.heartbeat('m', 1)).toEqual({ lost: [], gained: [] });
  expect([generations.owned(), generations.isSettled]).toEqual([[0, 1], true]);
  expect(generations.join('m', [1])).toEqual([0]);
  expect(generations.heartbeat('m', 2)).toEqual({ lost: [], gained: [] });
});

test('loses everything with its session, and owns again what it gets back', () => {
  const generations = aMember([0, 1]);
  expect(generations.leave()).toEqual([0, 1]);
  expect([generations.owned(), generations.current]).toEqual([[], undefined]);
  generations.join('n', [1]);
  expect(generations.heartbeat('n', 9)).toEqual({ lost: [], gained: [1] });
});

test('learns nothing new from the heartbeats of a quiet group', () => {
  const generations = aMember([0]);
  expect(generations.heartbeat('m', 1)).toBeUndefined();
  expect(generations.heartbeat('someone else', 7)).toBeUndefined();
  expect(generations.owned()).toEqual([0]);
});

/** Member `m` in generation 1. */
function aMember(owned: number[]): Generations {
  const generations = new Generations();
  generations.join('m', owned);
  generations.heartbeat('m', 1);
  return generations;
}
