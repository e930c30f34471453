/** Tests the report of the cost of traces. */
import { expect, test } from 'vitest';
import { tracesReport } from './tracesReport.ts';

test('compares with the mean of both processes without traces, and divides the cost of 10 %', () => {
  const facts = { at: '2026-01-01T00:00:00Z', machine: '', node: '', kafka: '', loadBefore: 0 };
  const report = (...ten: number[]) => {
    const micros = { off: [10, 10, 10], again: [10, 9, 11], one: [10.1, 9.5, 12.6], ten };
    const row = { events: 20, connections: 64, micros };
    return tracesReport({ run: { ...facts, seconds: 1, runs: 1 }, rows: [row] });
  };
  const text = report(11, 9.5, 12.6);
  expect(text).toContain('| 20 × 64 | 1.000 (0.90–1.10) | 1.010 (1.00–1.20) | 1.100 (1.00–1.20) |');
  expect(text).toContain('the largest cost, divided by ten, is 1.0 % (upper quartile: 2.0 %).');
});
