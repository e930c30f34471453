/** Tests the report of the fairness benchmark's figures. */
import { expect, test } from 'vitest';
import { type Loaded, mediansOf, type Round } from './fairnessFigures.ts';
import { fairnessReport } from './fairnessReport.ts';

test('reports the medians of several runs, and nothing if the two loads elsewhere differ', () => {
  const rounds = [aRound(4, [4, 4], 8), aRound(5, [5, 40], 6), aRound(40, [4, 5], 80)];
  expect(mediansOf({ rounds })).toMatchObject({
    ...{ alone: { p99Ms: 5 }, elsewhere: { p99Ms: 4.5 }, beside: { p99Ms: 8 } },
    ...{ toElsewhere: 8 / 4.5, isConclusive: true },
  });
  expect(mediansOf({ rounds: [aRound(4, [4, 8], 4)] })?.isConclusive).toBe(false);
  expect(mediansOf({ rounds: [] })).toBeUndefined();
});

test('shows a failed measurement with its reason, and the number of lost requests', () => {
  const absent = { absent: 'it broke' };
  const rows = [{ ...aRow(), ...absent }, aRow(aRound(4, [4, 4], 9, 1))];
  const report = fairnessReport({ run: RUN, rows, overload: absent, limiter: absent });
  expect(report).toContain('| writes | a flood | – | – | – | it broke |');
  expect(report).toContain('| 1.00/9.00 | 2.25; 1 lost |');
  expect(report).toContain('Overload: not measured: it broke.');
});

function aRound(alone: number, [first, again]: [number, number], beside: number, refused = 0): Round {
  const of = (p99Ms: number): Loaded => ({
    figures: { p50Ms: 1, p99Ms, p999Ms: p99Ms, refused: 0, timedOut: 0 },
    answers: { 429: 1 },
  });
  const loaded = of(beside);
  return {
    ...{ alone: of(alone), elsewhere: [of(first), of(again)] },
    beside: { ...loaded, figures: { ...loaded.figures, refused } },
  };
}

function aRow(...rounds: Round[]) {
  return { beside: 'a flood', victim: 'writes', rounds };
}

const RUN = {
  ...{ at: '2026-01-01T00:00:00Z', machine: 'a machine', node: '24', kafka: '4' },
  ...{ loadBefore: 0, seconds: 10, runs: 1 },
};
