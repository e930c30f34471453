/** Tests the report of the costs of a ClickHouse cluster. */
import { expect, test } from 'vitest';
import { clusterReport } from './clusterReport.ts';
import type { ClusterResult } from './measureCluster.ts';

const RUN = { at: '2026-01-01T00:00:00Z', machine: '', node: '', loadBefore: 0 };

function aResult(ratio: number): ClusterResult {
  return {
    ...{ run: RUN, runs: 5, replicas: 2, events: 2_000_000 },
    projector: [
      { shards: 0, cpuMicrosPerEvent: 4, ratio: undefined },
      { shards: 2, cpuMicrosPerEvent: 5, ratio },
    ],
    queries: [
      {
        title: 'How long?',
        figures: [
          { shards: 0, millis: 100, cpuMillis: 200 },
          { shards: 2, millis: 150, cpuMillis: 210 },
        ],
      },
    ],
  };
}

test('compares the duration and the CPU time of a query with those of one server', () => {
  expect(clusterReport(aResult(1.2))).toContain('| How long? | 100 | 1.50, 1.05 |');
});

test('judges the ratios of the projector', () => {
  expect(clusterReport(aResult(1.2))).toContain('| relative to one server | 1.00 | 1.20 | 1.2: reached |');
  expect(clusterReport(aResult(1.21))).toContain('| 1.2: not reached |');
});
