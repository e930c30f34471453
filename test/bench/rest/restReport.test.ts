/** Tests the page about `npm start` at rest. */
import { expect, test } from 'vitest';
import type { RestResult } from './measureRest.ts';
import { restReport } from './restReport.ts';

test('compares the sum of all processes and the median start with the maximums', () => {
  const report = restReport(aResult({ cpuShare: 0.002, rssBytes: 149 * 1024 ** 2 }));
  expect(report.match(/: reached/g)).toHaveLength(3);
  expect(report).toContain('1.10 s (0.90 s to 3.00 s in 3 starts)');
  const more = restReport(aResult({ cpuShare: 0.003, rssBytes: 151 * 1024 ** 2 }));
  expect(more).toContain('| 0.60 % | below 0.50 %: not reached |');
  expect(more).toContain('| 302 MiB | below 300 MiB: not reached |');
});

function aResult(of: { cpuShare: number; rssBytes: number }): RestResult {
  const process = { name: 'main.ts', ownBytes: 1, peakBytes: 1, ...of };
  return {
    run: { at: '2026-01-01T00:00:00Z', machine: 'a machine', node: '24', loadBefore: 0 },
    firstReadyMs: 9_000,
    readyMs: [900, 1_100, 3_000],
    idleSeconds: 30,
    processes: [process, { ...process, name: 'engine.ts' }],
  };
}
