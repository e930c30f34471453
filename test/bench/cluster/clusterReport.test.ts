/** Tests the report of the costs of a ClickHouse cluster. */
import { expect, test } from 'vitest';
import { clusterReport } from './clusterReport.ts';
import type { ClusterResult, QueryCost } from './measureCluster.ts';

const RUN = { at: '2026-01-01T00:00:00Z', machine: '', node: '', loadBefore: 0 };

function aQuery(millis: number, cpuMillis: number): QueryCost {
  const single = { shards: 0 as const, millis: 100, cpuMillis: 200 };
  return { title: 'How long?', figures: [single, { shards: 2, millis, cpuMillis }] };
}

function aResult(ratio: number): ClusterResult {
  return {
    ...{ run: RUN, runs: 5, replicas: 2, events: 2_000_000 },
    projector: [
      { shards: 0, cpuMicrosPerEvent: 4, ratio: undefined },
      { shards: 2, cpuMicrosPerEvent: 5, ratio },
    ],
    queries: [aQuery(150, 210), aQuery(50, 300), aQuery(90, 200)],
  };
}

test('compares the duration and the CPU time of the queries with those of one server', () => {
  const report = clusterReport(aResult(1.2));
  expect(report).toContain('| duration of queries | 0.90, 0.50, 1.50 | – |');
  expect(report).toContain('| CPU time of queries | 1.05, 1.00, 1.50 | – |');
});

test('judges the ratios of the projector', () => {
  expect(clusterReport(aResult(1.2))).toContain('| CPU time of the projector | 1.20 | 1.2: reached |');
  expect(clusterReport(aResult(1.21))).toContain('| 1.2: not reached |');
});
