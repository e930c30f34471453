/** Tests the tables of the page that summarizes the benchmarks. */
import { expect, test } from 'vitest';
import type { KindsResult } from '../kinds/measureKinds.ts';
import type { PathResult, PeerFigures, RunFacts } from './pathFigures.ts';
import { kindsTable } from './performanceSummary.ts';

const SHAPE = { events: 20, connections: 64 };
const COST = { requestsPerSecond: 1, refused: 0, timedOut: 0 };
const RUN: RunFacts = {
  ...{ at: '2026-01-01T00:00:00Z', machine: 'Intel(R) Xeon(R) Processor, 2 cores, linux', node: '' },
  ...{ kafka: '', loadBefore: 0, seconds: 1, runs: 1 },
};

test('shows the cost of each kind relative to plain requests and to the Collector', () => {
  expect(kindsTable({ kinds: kindsOf(RUN), beside: peersOf(RUN) })?.split('\n')).toEqual([
    '| Intel Xeon, 2026-01-01 | 20 × 64 | target |',
    '|---|---|---|',
    '| a new `Idempotency-Key` | 1.50 (0.75); 3 failed | 1.25 |',
  ]);
});

test('does not compare kinds with a Collector of another run', () => {
  const later = { ...RUN, at: '2026-01-02T00:00:00Z' };
  expect(kindsTable({ kinds: kindsOf(later), beside: peersOf(RUN) })).toBeUndefined();
});

function kindsOf(run: RunFacts): KindsResult {
  const costs = { cpuMicrosPerEvent: 6, plainMicrosPerEvent: 4, ratio: 1.5 };
  return { run, rows: [{ ...SHAPE, kind: 'keyed', ...COST, ...costs, refused: 3 }] };
}

/** Returns a run in which an event costs twice as much in the Collector as in a plain request. */
function peersOf(run: RunFacts): PathResult {
  const figures = (cpuMicrosPerEvent: number): PeerFigures => ({
    closed: { ...COST, cpuMicrosPerEvent },
    open: { p50Ms: 1, p99Ms: 1, refused: 0, timedOut: 0 },
  });
  return {
    ...{ run, peers: [] },
    rows: [{ ...SHAPE, openPerSecond: 1, peers: { questlog: figures(2), collector: figures(4) } }],
    projector: { events: 1, cpuMicrosPerEvent: 1, clickhouseMicrosPerEvent: 1 },
  };
}
