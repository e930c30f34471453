/** Tests the report of the benchmark's figures. */
import { expect, test } from 'vitest';
import type { PeerName } from '../peers/peer.ts';
import { verdict } from './againstCommit.ts';
import { medianRow, type PathResult, type PeerFigures, type RowFigures } from './pathFigures.ts';
import { pathReport } from './pathReport.ts';

test('combines several runs to the median of each figure and the missing figures of all runs', () => {
  const rowOf = (questlog: number, refused: number) =>
    aResult({ questlog }, { refused }).rows[0] as RowFigures;
  const lame = rowOf(Number.NaN, 1);
  const { questlog } = medianRow([lame, rowOf(3, 0), rowOf(2, 0)]).peers;
  expect(questlog?.closed).toEqual({ ...lame.peers.questlog?.closed, cpuMicrosPerEvent: 3 });
});

test('lists the reason why the Collector was not measured', () => {
  const report = pathReport(aResult({ questlog: 1 }));
  expect(report).toContain('Collector: not measured: there is no Go to build it with.');
});

test.each([
  [500, 8, '500 × 8', 'below 1'],
  [20, 64, '20 × 64', 'below 1'],
  [1, 64, '1 × 64', '1.1'],
  [1, 1_000, '1 × 1,000', '1.1'],
  [7, 8, '7 × 8', '–'],
])('shows the ratio of %i events on %i connections to the Collector and its target', (...row) => {
  const [events, connections, title, target] = row;
  const report = pathReport(aResult({ questlog: 3, collector: 4 }, { events, connections }));
  expect(report).toContain(`| ${title} | 3.00 | – | – | 4.00 | 0.75 | ${target} |`);
});

test('ignores a difference that is not larger than the noise of the commit', () => {
  const row = { events: 1, connections: 64, parentMicros: [98, 102], candidateMicros: 97 } as const;
  expect(verdict(row)).toBe('no difference beyond the noise of 4.1 %');
});

test('is inconclusive if the two runs of the commit differ by more than 5 %', () => {
  const shape = { events: 1, connections: 64 };
  const found = verdict({ ...shape, parentMicros: [100, 106], candidateMicros: 50 });
  expect(found).toBe('inconclusive: the parent differs from itself by 6.0 %');
  expect(verdict({ ...shape, parentMicros: [98, 102], candidateMicros: 50 })).toBe('0.50 of the parent');
});

function aResult(
  micros: Partial<Record<PeerName, number>>,
  { refused = 0, events = 500, connections = 8 } = {},
): PathResult {
  const figures = (cpuMicrosPerEvent: number): PeerFigures => ({
    closed: { cpuMicrosPerEvent, requestsPerSecond: 10, refused, timedOut: 0 },
    open: { p50Ms: 1, p99Ms: 1, refused: 0, timedOut: 0 },
  });
  const absent = { name: 'collector', version: '', absent: 'there is no Go to build it with' } as const;
  const peers = Object.entries(micros).map(([name, value]) => [name, figures(value)]);
  return {
    run: { at: '2026-01-01T00:00:00Z', machine: '', node: '', kafka: '', loadBefore: 0, seconds: 1, runs: 1 },
    peers: micros.collector === undefined ? [absent] : [],
    rows: [{ events, connections, openPerSecond: 5, peers: Object.fromEntries(peers) }],
    projector: { events: 1, cpuMicrosPerEvent: 1, clickhouseMicrosPerEvent: 1 },
  };
}
