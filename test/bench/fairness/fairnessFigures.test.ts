/** Tests the report of the fairness benchmark's figures. */
import { expect, test } from 'vitest';
import { type Loaded, lostOf, mediansOf, type Round } from './fairnessFigures.ts';

test('computes the medians of several runs, whether the two loads elsewhere are equal, and the lost requests', () => {
  const rounds = [aRound(4, [4, 4], 8), aRound(5, [5, 40], 6), aRound(40, [4, 5], 80)];
  expect(mediansOf({ rounds })).toMatchObject({
    ...{ alone: { p99Ms: 5 }, elsewhere: { p99Ms: 4.5 }, beside: { p99Ms: 8 } },
    ...{ toElsewhere: 8 / 4.5, isConclusive: true },
  });
  expect(mediansOf({ rounds: [aRound(4, [4, 8], 4)] }).isConclusive).toBe(false);
  expect(lostOf({ rounds: [aRound(4, [4, 4], 9, 1)] })).toBe(1);
});

function aRound(alone: number, [first, again]: [number, number], beside: number, refused = 0): Round {
  const of = (p99Ms: number): Loaded => ({
    figures: { p50Ms: 1, p99Ms, refused: 0, timedOut: 0 },
    answers: { 429: 1 },
  });
  const loaded = of(beside);
  return {
    ...{ alone: of(alone), elsewhere: [of(first), of(again)] },
    beside: { ...loaded, figures: { ...loaded.figures, refused } },
  };
}
