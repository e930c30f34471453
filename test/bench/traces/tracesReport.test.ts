/** Tests the report of the cost of traces. */
import { expect, test } from 'vitest';
import { tracesReport } from './tracesReport.ts';

test('compares traced requests with the mean of both processes without traces, and judges the median', () => {
  const run = {
    at: '2026-01-01T00:00:00Z',
    machine: '',
    node: '',
    kafka: '',
    loadBefore: 0,
    seconds: 1,
    runs: 3,
  };
  const off = { events: 20, connections: 64, offMicros: [10, 10, 10], againMicros: [10, 9, 11] };
  const report = tracesReport({
    run,
    rows: [
      { ...off, tracedMicros: [10.1, 9.5, 12.6] },
      { ...off, tracedMicros: [10.4, 9.5, 12.6] },
    ],
  });
  const facts = '| 20 × 64 | 10.0 | 1.000 (0.90 to 1.10) |';
  expect(report).toContain(`${facts} 1.010 (1.00 to 1.20) | below 1.03: reached |`);
  expect(report).toContain(`${facts} 1.040 (1.00 to 1.20) | below 1.03: not reached |`);
});
