/** Tests the page about larger deployments. */
import { expect, test } from 'vitest';
import type { CostFigures } from '../path/pathFigures.ts';
import { flatReport } from './flatReport.ts';
import { changeName, type FlatResult, type FlatRow } from './measureFlat.ts';

test('compares a change with the mean of the base before and after it', () => {
  const report = flatReport(aResult({ change: { tenants: 100 }, figures: figures(3, 150) }));
  expect(report).toContain('| tenants 100 | 1.50, 0.75 |');
  expect(report).not.toContain('reached');
});

test('the target at spread 8 is 85 % of the throughput at spread 1', () => {
  const at = (perSecond: number) =>
    flatReport(aResult({ change: { spread: 8 }, figures: figures(1, perSecond) }));
  expect(at(170)).toContain('| spread 8 | 0.85 | 0.85: reached |');
  expect(at(168)).toContain('| spread 8 | 0.84 | 0.85: not reached |');
});

test('compares spread 8 with spread 1 for requests of one session', () => {
  const one = { change: { sessionsARequest: 1 }, figures: figures(1, 300) };
  const both = { change: { spread: 8, sessionsARequest: 1 }, figures: figures(1, 240) };
  const report = flatReport(aResult(one, both));
  expect(report).toContain('| spread 8, sessions a request 1 | 0.80 | 0.85: not reached |');
});

test('names a change by all properties that differ from the base', () => {
  expect(changeName({ sessions: 1e6, sessionsInUse: 2e5 })).toBe(
    'sessions 1,000,000, sessions in use 200,000',
  );
});

function figures(micros: number, perSecond: number): FlatRow['figures'] {
  const cost = (cpuMicrosPerEvent: number, requestsPerSecond: number): CostFigures => {
    return { cpuMicrosPerEvent, requestsPerSecond, refused: 0, timedOut: 0 };
  };
  const base = [cost(1, 100), cost(3, 300)] as const;
  return [{ events: 20, connections: 64, base, changed: cost(micros, perSecond) }];
}

function aResult(...rows: FlatRow[]): FlatResult {
  const machine = { at: '2026-01-01T00:00:00Z', machine: 'a machine', node: '24', loadBefore: 0 };
  return {
    run: { ...machine, kafka: '4', seconds: 1, runs: 1 },
    base: {
      tenants: 1,
      sessions: 1,
      sessionsInUse: 1,
      partitions: 12,
      spread: 1,
      sessionsARequest: 500,
      openReports: 0,
    },
    rows,
  };
}
