/** Tests the judgement of the fairness benchmark's figures. */
import { expect, test } from 'vitest';
import {
  type FairnessResult,
  judge,
  type Loaded,
  mediansOf,
  type OverloadFigures,
  type Round,
} from './fairnessFigures.ts';
import { fairnessReport } from './fairnessReport.ts';

test('reports the medians of several runs, and nothing if the two loads elsewhere differ', () => {
  const rounds = [aRound(4, [4, 4], 8), aRound(5, [5, 40], 6), aRound(40, [4, 5], 80)];
  expect(mediansOf({ rounds })).toMatchObject({
    ...{ alone: { p99Ms: 5 }, elsewhere: { p99Ms: 4.5 }, beside: { p99Ms: 8 } },
    ...{ toAlone: 1.6, toElsewhere: 8 / 4.5, isConclusive: true },
  });
  expect(mediansOf({ rounds: [aRound(4, [4, 8], 4)] })?.isConclusive).toBe(false);
  expect(mediansOf({ rounds: [] })).toBeUndefined();
});

test('--check fails if the tenant is more than twice as slow as with the other tenant elsewhere, or is rejected', () => {
  expect(judge(aResult({ rows: [aRow(aRound(1, [4, 4], 8))] })).failures).toEqual([]);
  expect(judge(aResult({ rows: [aRow(aRound(4, [4, 4], 9))] })).failures).toEqual([
    'writes during a flood: 2.25 times elsewhere',
  ]);
  expect(judge(aResult({ rows: [aRow(aRound(4, [4, 8], 9))] })).notJudged).toEqual([
    'writes during a flood: inconclusive',
  ]);
  expect(judge(aResult({ rows: [aRow(aRound(4, [4, 4], 4, 1))] })).failures).toEqual([
    'writes during a flood: 1 requests of the victim were rejected or timed out',
  ]);
});

test('--check fails if a limit passes too many or too few events after the ingests know each other', () => {
  const of = { ingests: 2, limitPerSecond: 100, duePerSecond: 1_000, firstError: 1, firstSeconds: 10 };
  const judged = (settledError: number) => judge(aResult({ limiter: [{ ...of, settledError }] })).failures;
  expect(judged(0.1)).toEqual([]);
  expect(judged(0.2)).toEqual(['limiter of 2 ingests: 20.0 % from its rate']);
  expect(judged(-0.5)).toEqual(['limiter of 2 ingests: -50.0 % from its rate']);
});

test('--check fails if the ingest does not recover from the overload, and does not judge missing figures', () => {
  const overload = { ...OVERLOAD, withoutRetryAfter: 1, firstGoodMs: null, p99Ms: { before: 4, after: 9 } };
  expect(judge(aResult({ overload })).failures).toHaveLength(3);
  const held = { ...OVERLOAD, answers: { 201: 9 }, rssBytes: { before: 1, highest: 2 ** 31, after5s: 1 } };
  expect(judge(aResult({ overload: held })).failures).toEqual([
    'overload: 2048 MiB, of 1024',
    'overload: no 503, so the ingest was not overloaded or buffered all requests',
  ]);
  const absent = { absent: 'it broke' };
  const result = aResult({ rows: [{ ...aRow(), ...absent }], overload: absent, limiter: absent });
  expect(judge(result)).toEqual({
    failures: [],
    notJudged: ['writes during a flood: it broke', 'the limiter: it broke', 'the overload: it broke'],
  });
  expect(fairnessReport(result)).toContain('Overload: not measured: it broke.');
});

function aRound(alone: number, [first, again]: [number, number], beside: number, refused = 0): Round {
  const of = (p99Ms: number): Loaded => ({
    figures: { p50Ms: 1, p99Ms, p999Ms: p99Ms, refused: 0, timedOut: 0 },
    ...{ busy: 0.1, ingestCores: 0.1, answers: { 429: 1 } },
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

const OVERLOAD: OverloadFigures = {
  ...{
    requestsPerSecond: 1,
    duePerSecond: 10,
    connections: 8,
    answers: { 503: 1 },
    withoutRetryAfter: 0,
    others: {},
  },
  ...{
    othersMs: { p50: 1, p99: 2 },
    rssBytes: { before: 1, highest: 2, after5s: 1 },
    firstGoodMs: 1,
    p99Ms: { before: 4, after: 8 },
  },
};

function aResult(of: Partial<FairnessResult>): FairnessResult {
  const facts = { at: '2026-01-01T00:00:00Z', machine: 'a machine', node: '24', kafka: '4' };
  const run = { ...facts, loadBefore: 0, seconds: 10, runs: 1 };
  return { run, rows: [], overload: OVERLOAD, limiter: [], ...of };
}
