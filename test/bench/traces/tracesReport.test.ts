/** Tests the computation and the report of the cost of traces. */
import { expect, test } from 'vitest';
import { tracesCost } from './tracesCost.ts';
import { tracesReport } from './tracesReport.ts';

const FACTS = { at: '2026-01-01T00:00:00Z', machine: '', node: '', kafka: '', loadBefore: 0 };
const SHAPE = { events: 20, connections: 64 };

/** Returns a round in which a request costs 100 µs, and a sampled request `sampled` µs more. */
function aRound(sampled: number, noise = 0) {
  return { 0: 100, 0.01: 100 + sampled / 100 + noise, 0.1: 100 + sampled / 10, 1: 100 + sampled };
}

test('computes the ratio at 1 %, and the cost of a sampled request from all slices', () => {
  const cost = tracesCost([aRound(20), aRound(20)]);
  expect(cost.plainMicros).toBe(100);
  expect(cost.ratioAtOne).toEqual({ value: 1.002, low: 1.002, high: 1.002 });
  expect(cost.sampledMicros.value).toBeCloseTo(20);
});

test('judges the upper limit of the interval', () => {
  const report = (...noise: number[]) => {
    const row = { ...SHAPE, ...tracesCost(noise.map((one) => aRound(20, one))) };
    const result = { rounds: 2, unsampledMicros: 0.1, rows: [row] };
    return tracesReport({ run: { ...FACTS, seconds: 1, runs: 2 }, ...result });
  };
  expect(report(0, 0)).toContain('| 1.002 (1.002–1.002) | 20.0 (20.0–20.0) | 1.0020 (1.0020–1.0020) |');
  expect(report(0, 0)).toContain('reached. The highest upper limit is 0.3 %.');
  expect(report(-8, 8)).toContain('| 1.002 (0.922–1.082) |');
  expect(report(-8, 8)).toContain('not proven. The highest upper limit is 8.3 %.');
});
