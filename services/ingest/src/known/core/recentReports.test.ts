/** What a read says of an event's reports before the linker has done its part: neither a link too few nor one too many. */
import { randomUUID } from 'node:crypto';
import { aReportLink } from '@questlog/schemas/fixtures/builders';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { expect, test } from 'vitest';
import { RecentReports } from './recentReports.ts';

const PROJECT = '85ac27b3-4cf8-4a46-b24b-0b6ca34e27fa';
const NOW = aReportLink().receivedAt;
const EVENT = { id: randomUUID(), sessionId: randomUUID(), occurredAt: BigInt(NOW) * 1000n };

function aReport(of: Partial<ReportLink> = {}): ReportLink {
  return aReportLink({ projectId: PROJECT, ...of });
}

test('an event has what it is linked to, what names it and what its session’s windows say, sorted, each once', () => {
  const [named, windowed, both] = [
    aReport({ eventIds: [EVENT.id] }),
    aReport({ sessionId: EVENT.sessionId }),
    aReport({ inlineEventIds: [EVENT.id], sessionId: EVENT.sessionId }),
  ];
  const recent = new RecentReports();
  for (const report of [named, windowed, both]) recent.open(report, NOW);
  const old = randomUUID();
  const all = [old, named.reportId, windowed.reportId, both.reportId].toSorted();
  expect(recent.of(PROJECT, EVENT, [old, both.reportId], NOW)).toEqual(all);
});

test('a retracted report is gone at once, also where its link is still stored as linked', () => {
  const [kept, gone] = [
    aReport({ sessionId: EVENT.sessionId }),
    aReport({ sessionId: EVENT.sessionId, eventIds: [EVENT.id] }),
  ];
  const recent = new RecentReports();
  for (const report of [kept, gone]) recent.open(report, NOW);
  recent.retract(PROJECT, gone.reportId);
  expect(recent.of(PROJECT, EVENT, [gone.reportId, kept.reportId], NOW)).toEqual([kept.reportId]);
  expect(recent.of(PROJECT, EVENT, [gone.reportId], NOW)).toEqual([kept.reportId]);
});

test('a report of the same id in another project is not taken back with it', () => {
  const { reportId } = aReport();
  const recent = new RecentReports();
  recent.retract(randomUUID(), reportId);
  expect(recent.of(PROJECT, EVENT, [reportId], NOW)).toEqual([reportId]);
});

test('a retraction that came before its report retracts nothing', () => {
  const report = aReport({ eventIds: [EVENT.id] });
  const recent = new RecentReports();
  recent.retract(PROJECT, report.reportId);
  recent.open(report, NOW);
  expect(recent.of(PROJECT, EVENT, [], NOW)).toEqual([report.reportId]);
});

test('beyond the bound the oldest retractions are forgotten, the latest are not', () => {
  const ids = [randomUUID(), randomUUID(), randomUUID()].toSorted();
  const recent = new RecentReports(2);
  for (const id of ids) recent.retract(PROJECT, id);
  expect(recent.of(PROJECT, EVENT, ids, NOW)).toEqual(ids.slice(0, 1));
});
