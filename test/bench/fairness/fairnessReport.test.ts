/** What the bench of fairness says of its figures: what it fails for, and what it does not judge. */
import { expect, test } from 'vitest';
import type { OpenFigures } from '../path/pathLoad.ts';
import {
  conclusive,
  type FairnessResult,
  judge,
  type OverloadFigures,
  type Pair,
} from './fairnessFigures.ts';
import { fairnessReport } from './fairnessReport.ts';

test('of several runs the median of those is told in which the two times alone are alike', () => {
  const [noisy, low, high] = [aPair(4, 90, 8), aPair(4, 4, 5), aPair(4, 9, 4)];
  expect(conclusive(aRow(noisy, high, low))).toBe(high);
  expect(conclusive(aRow(noisy, low))).toBe(low);
  expect(conclusive(aRow(noisy))).toBeUndefined();
});

test('--check fails where the tenant is slower than twice, or is refused', () => {
  expect(judge(aResult({ rows: [aRow(aPair(4, 8, 4))] })).failures).toEqual([]);
  expect(judge(aResult({ rows: [aRow(aPair(4, 9, 4))] })).failures).toEqual([
    'writes beside a flood: 2.25 times alone',
  ]);
  const lost = aPair(4, 4, 4);
  expect(
    judge(aResult({ rows: [aRow({ ...lost, beside: { ...lost.beside, refused: 1 } })] })).failures,
  ).toEqual(['writes beside a flood: 1 requests of the victim were refused or timed out']);
});

test('--check fails where a limit lets too much or too little pass once the ingests know each other', () => {
  const of = { ingests: 2, limitPerSecond: 100, duePerSecond: 1_000, firstError: 1, firstSeconds: 10 };
  const judged = (settledError: number) => judge(aResult({ limiter: [{ ...of, settledError }] })).failures;
  expect(judged(0.1)).toEqual([]);
  expect(judged(0.2)).toEqual(['limiter of 2 ingests: 20.0 % from its rate']);
  expect(judged(-0.5)).toEqual(['limiter of 2 ingests: -50.0 % from its rate']);
});

test('--check fails where the overload leaves traces, and does not judge what could not be measured', () => {
  const overload = { ...OVERLOAD, withoutRetryAfter: 1, firstGoodMs: null, p99Ms: { before: 4, after: 9 } };
  expect(judge(aResult({ overload })).failures).toHaveLength(3);
  const held = { ...OVERLOAD, answers: { 201: 9 }, rssBytes: { before: 1, highest: 2 ** 31, after5s: 1 } };
  expect(judge(aResult({ overload: held })).failures).toEqual([
    'overload: 2048 MiB, of 1024',
    'overload: no 503: it was none, or all of it was held',
  ]);
  const absent = { absent: 'it broke' };
  const result = aResult({ rows: [{ ...aRow(), ...absent }], overload: absent, limiter: absent });
  expect(judge(result)).toEqual({
    failures: [],
    notJudged: ['writes beside a flood: it broke', 'the limiter: it broke', 'the overload: it broke'],
  });
  expect(fairnessReport(result)).toContain('Overload: not measured: it broke.');
});

function aPair(first: number, beside: number, again: number): Pair {
  const of = (p99Ms: number): OpenFigures => ({ p50Ms: 1, p99Ms, p999Ms: p99Ms, refused: 0, timedOut: 0 });
  return {
    alone: [of(first), of(again)],
    beside: of(beside),
    busy: [0.1, 0.2],
    ingestCores: [0.1, 0.2],
    answers: { 429: 1 },
  };
}

function aRow(...pairs: Pair[]) {
  return { beside: 'a flood', victim: 'writes', pairs };
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
