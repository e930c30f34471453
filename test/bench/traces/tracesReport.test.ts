/** Tests the computation and the report of the cost of traces. */
import { expect, test } from 'vitest';
import { tracesCost } from './tracesCost.ts';
import { tracesReport } from './tracesReport.ts';

const FACTS = { at: '2026-01-01T00:00:00Z', machine: '', node: '', kafka: '', loadBefore: 0 };
const SHAPE = { events: 20, connections: 64 };

/** Returns a round in which a request costs 100 µs, and a sampled request `sampled` µs more. */
function aRound(sampled: number) {
  return { 0: 100, 0.01: 100 + sampled / 100, 0.1: 100 + sampled / 10 };
}

test('a disturbed round does not change the ratios', () => {
  const cost = tracesCost([aRound(20), aRound(20), aRound(20), { 0: 100, 0.01: 500, 0.1: 20 }]);
  expect(cost.plainMicros).toBe(100);
  expect([cost.atOnePercent.value, cost.atTenPercent.value]).toEqual([1.002, 1.02]);
});

test('computes the cost of 1 % from the cost of 10 %, and judges the upper limit of its interval', () => {
  const report = (...sampled: number[]) => {
    const rows = [{ ...SHAPE, ...tracesCost(sampled.map(aRound)) }];
    return tracesReport({ run: { ...FACTS, seconds: 1, runs: 2 }, unsampledMicros: 0.1, rows });
  };
  expect(report(20, 20)).toContain(
    ' reached. The cost of 1 % is a tenth of the cost of 10 %, and at most 0.3 %.',
  );
  expect(report(0, 500)).toContain(
    'not proven. The cost of 1 % is a tenth of the cost of 10 %, and at most 5.1 %.',
  );
});
