/** Tests the report of the cost of traces. */
import { expect, test } from 'vitest';
import { tracesReport } from './tracesReport.ts';

const FACTS = { at: '2026-01-01T00:00:00Z', machine: '', node: '', kafka: '', loadBefore: 0 };
const SHAPE = { events: 20, connections: 64 };

test('interpolates the cost of 1 %, and judges the upper limit of its interval', () => {
  const report = (...none: number[]) => {
    const micros = { off: [10, 10], none, ten: [11, 11] };
    return tracesReport({ run: { ...FACTS, seconds: 1, runs: 2 }, rows: [{ ...SHAPE, micros }] });
  };
  const certain = report(10, 10);
  expect(certain).toContain('| 20 × 64 | 1.000 (1.000–1.000) | 1.010 (1.010–1.010) | 1.100 (1.100–1.100) |');
  expect(certain).toContain('reached. The highest upper limit is 1.0 %.');
  const uncertain = report(9, 11);
  expect(uncertain).toContain('| 1.000 (0.900–1.100) | 1.010 (0.920–1.100) | 1.100 (1.100–1.100) |');
  expect(uncertain).toContain('not proven. The highest upper limit is 10.0 %.');
});
