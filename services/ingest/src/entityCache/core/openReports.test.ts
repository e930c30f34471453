/** Tests that a read before the linker has run returns all reports of an event and no other reports. */
import { randomUUID } from 'node:crypto';
import { aReportLink } from '@questlog/schemas/fixtures/builders';
import { closesAtMs } from '@questlog/schemas/reportWindow';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { describe, expect, test } from 'vitest';
import { MAX_OPEN_REPORTS_PER_KEY, OpenReports } from './openReports.ts';

const PROJECT = '85ac27b3-4cf8-4a46-b24b-0b6ca34e27fa';
const NOW = aReportLink().receivedAt;
const SESSION = randomUUID();
const EVENT = { id: randomUUID(), sessionId: SESSION, occurredAt: BigInt(NOW) * 1000n };

function aReport(of: Partial<ReportLink> = {}): ReportLink {
  return aReportLink({ projectId: PROJECT, ...of });
}

test('an event has its stored links, naming reports, and open windows, sorted, without duplicates', () => {
  const [named, windowed, both] = [
    aReport({ eventIds: [EVENT.id] }),
    aReport({ sessionId: EVENT.sessionId }),
    aReport({ inlineEventIds: [EVENT.id], sessionId: EVENT.sessionId }),
  ];
  const recent = new OpenReports();
  for (const report of [named, windowed, both]) recent.open(report, NOW);
  const old = randomUUID();
  const all = [old, named.reportId, windowed.reportId, both.reportId].toSorted();
  expect(recent.reportsOf(PROJECT, EVENT, [old, both.reportId], NOW)).toEqual(all);
});

test('omits a retracted report at once, also if its link is still stored as linked', () => {
  const [kept, gone] = [
    aReport({ sessionId: EVENT.sessionId }),
    aReport({ sessionId: EVENT.sessionId, eventIds: [EVENT.id] }),
  ];
  const recent = new OpenReports();
  for (const report of [kept, gone]) recent.open(report, NOW);
  recent.retract(PROJECT, gone.reportId);
  expect(recent.reportsOf(PROJECT, EVENT, [gone.reportId, kept.reportId], NOW)).toEqual([kept.reportId]);
  expect(recent.reportsOf(PROJECT, EVENT, [gone.reportId], NOW)).toEqual([kept.reportId]);
});

test('omits a retracted report also after its retraction is evicted', () => {
  const reports = [aReport({ sessionId: SESSION, eventIds: [EVENT.id] }), aReport({ sessionId: SESSION })];
  const recent = new OpenReports({ retracted: 1 });
  for (const report of reports) recent.open(report, NOW);
  for (const { reportId } of reports) recent.retract(PROJECT, reportId);
  expect(recent.reportsOf(PROJECT, EVENT, [], NOW)).toEqual([]);
});

test('does not link an erased report to further events', () => {
  const [kept, gone, named] = [
    aReport({ sessionId: SESSION }),
    aReport({ sessionId: SESSION }),
    aReport({ eventIds: [EVENT.id] }),
  ];
  const erased = new Set([gone, named].map(({ projectId, reportId }) => `${projectId}/${reportId}`));
  const recent = new OpenReports({}, ({ projectId, reportId }) => !erased.has(`${projectId}/${reportId}`));
  for (const report of [kept, gone, named]) recent.open(report, NOW);
  expect(recent.reportsOf(PROJECT, EVENT, [], NOW)).toEqual([kept.reportId]);
});

test('does not retract a report with the same id in another project', () => {
  const { reportId } = aReport();
  const recent = new OpenReports();
  recent.retract(randomUUID(), reportId);
  expect(recent.reportsOf(PROJECT, EVENT, [reportId], NOW)).toEqual([reportId]);
});

test('ignores a retraction before its report', () => {
  const report = aReport({ eventIds: [EVENT.id] });
  const recent = new OpenReports();
  recent.retract(PROJECT, report.reportId);
  recent.open(report, NOW);
  expect(recent.reportsOf(PROJECT, EVENT, [], NOW)).toEqual([report.reportId]);
});

test('evicts the oldest retractions above the limit', () => {
  const ids = [randomUUID(), randomUUID(), randomUUID()].toSorted();
  const recent = new OpenReports({ retracted: 2 });
  for (const id of ids) recent.retract(PROJECT, id);
  expect(recent.reportsOf(PROJECT, EVENT, ids, NOW)).toEqual(ids.slice(0, 1));
});

function opened(...reports: ReportLink[]): OpenReports {
  const recent = new OpenReports();
  for (const report of reports) recent.open(report, NOW);
  return recent;
}

describe('the window of a report', () => {
  const OTHER_EVENT = { ...EVENT, id: randomUUID() };
  const inSession = (of: Partial<ReportLink> = {}): ReportLink => aReport({ sessionId: SESSION, ...of });
  const reportsOf = (recent: OpenReports, of: Partial<typeof EVENT> = {}, nowMs = NOW) =>
    recent.reportsOf(PROJECT, { ...OTHER_EVENT, ...of }, [], nowMs);
  const micros = (millis: number): bigint => BigInt(millis) * 1000n;

  test('contains events at both ends, and none a microsecond outside', () => {
    const report = inSession({ windowBeforeMs: 10, windowAfterMs: 5 });
    const recent = opened(report);
    const at = (occurredAt: bigint) => reportsOf(recent, { occurredAt });
    expect(at(micros(NOW - 10))).toEqual([report.reportId]);
    expect(at(micros(NOW + 5))).toEqual([report.reportId]);
    expect(at(micros(NOW - 10) - 1n)).toEqual([]);
    expect(at(micros(NOW + 5) + 1n)).toEqual([]);
  });

  test('contains no event of another session or project, or without a session', () => {
    const recent = opened(inSession());
    expect(reportsOf(recent, { sessionId: randomUUID() })).toEqual([]);
    expect(recent.reportsOf(randomUUID(), OTHER_EVENT, [], NOW)).toEqual([]);
    expect(recent.reportsOf(PROJECT, { ...OTHER_EVENT, sessionId: null }, [], NOW)).toEqual([]);
    expect(opened(inSession({ sessionId: null })).counts.windows).toBe(0);
  });

  test('is returned with the other reports of its session, sorted, without duplicates', () => {
    const reports = [inSession(), inSession(), inSession()];
    const recent = opened(...reports, ...reports);
    expect(reportsOf(recent)).toEqual(reports.map(({ reportId }) => reportId).toSorted());
  });

  test('is evicted after it has closed, and does not open again', () => {
    const report = inSession();
    const recent = opened(report);
    const over = closesAtMs(report) + 1;
    expect(reportsOf(recent, {}, over - 1)).toEqual([report.reportId]);
    expect(recent.linkableReports(PROJECT, SESSION, over - 1)).toHaveLength(1);
    expect(recent.linkableReports(PROJECT, SESSION, over)).toEqual([]);
    expect(reportsOf(recent, {}, over)).toEqual([]);
    recent.open(report, over);
    expect(recent.counts.windows).toBe(0);
    recent.open(report, over - 1);
    expect(reportsOf(recent, {}, over - 1)).toEqual([report.reportId]);
  });

  test('is evicted as others open, even if its session is never used again', () => {
    const recent = opened(...Array.from({ length: 100 }, () => inSession()));
    const later = closesAtMs(inSession()) + 1;
    for (let i = 0; i < 100; i++) recent.open(inSession({ receivedAt: later }), later);
    expect(recent.counts.windows).toBe(100);
  });

  test('is evicted above the limit, oldest first', () => {
    const recent = new OpenReports({ windows: 10 });
    const reports = Array.from({ length: 30 }, () => inSession());
    for (const report of reports) recent.open(report, NOW);
    expect(recent.counts.windows).toBe(10);
    expect(reportsOf(recent)).toEqual(
      reports
        .slice(20)
        .map(({ reportId }) => reportId)
        .toSorted(),
    );
  });
});

describe('an event that a report names', () => {
  const naming = (of: Partial<ReportLink> = {}): ReportLink => aReport({ eventIds: [EVENT.id], ...of });
  const reportsOf = (recent: OpenReports, id: string = EVENT.id, nowMs = NOW) =>
    recent.reportsOf(PROJECT, { ...EVENT, id }, [], nowMs);

  test('has the reports that name or contain it, without duplicates', () => {
    const [byId, inside] = [naming(), naming({ inlineEventIds: [EVENT.id] })];
    const recent = opened(byId, inside, byId, naming({ eventIds: [randomUUID()] }));
    expect(reportsOf(recent)).toEqual([byId.reportId, inside.reportId].toSorted());
  });

  test('has no report of another project', () => {
    expect(reportsOf(opened(naming({ projectId: randomUUID() })))).toEqual([]);
  });

  test('has no retracted report, and keeps the other reports', () => {
    const [kept, gone] = [naming(), naming({ eventIds: [EVENT.id, randomUUID()] })];
    const recent = opened(kept, gone);
    recent.retract(PROJECT, gone.reportId);
    recent.retract(PROJECT, gone.reportId);
    expect(reportsOf(recent)).toEqual([kept.reportId]);
    recent.retract(PROJECT, kept.reportId);
    expect(reportsOf(recent)).toEqual([]);
  });

  test('has no report that closed before the event arrived', () => {
    const report = naming();
    const closesAt = closesAtMs(report);
    const recent = opened(report);
    expect(reportsOf(recent, EVENT.id, closesAt)).toEqual([report.reportId]);
    expect([PROJECT, randomUUID()].map((id) => recent.hasNamedEvents(id))).toEqual([true, false]);
    expect(reportsOf(recent, EVENT.id, closesAt + 1)).toEqual([]);
    recent.open(report, closesAt + 1);
    expect(recent.counts.namedIds).toBe(0);
    expect(recent.hasNamedEvents(PROJECT)).toBe(false);
  });

  test('is evicted as others open, after its reports have closed', () => {
    const recent = opened(...Array.from({ length: 100 }, () => naming()));
    const later = closesAtMs(naming()) + 1;
    for (let i = 0; i < 100; i++) recent.open(naming({ receivedAt: later }), later);
    expect(recent.counts.namedIds).toBe(100);
  });

  test('is evicted with the oldest reports if they name too many events', () => {
    const recent = new OpenReports({ namedIds: 1_000 });
    const light = Array.from({ length: 600 }, () => naming({ eventIds: [randomUUID()] }));
    for (const report of light) recent.open(report, NOW);
    const heavy = naming({ eventIds: Array.from({ length: 900 }, () => randomUUID()) });
    recent.open(heavy, NOW);
    expect(recent.counts.namedIds).toBe(1_000);
    const known = (report: ReportLink) => reportsOf(recent, report.eventIds[0]).length;
    expect(light.map(known)).toEqual(light.map((_, at) => (at < 500 ? 0 : 1)));
    expect(known(heavy)).toBe(1);
  });
});

test('limits the open reports of a session, and reports that name an event', () => {
  const recent = new OpenReports();
  const asking = { projectId: PROJECT, sessionId: SESSION, eventIds: [EVENT.id], maxSessionLinks: 4 };
  const other = { ...asking, sessionId: randomUUID(), eventIds: [randomUUID()] };
  const reports = Array.from({ length: MAX_OPEN_REPORTS_PER_KEY - 1 }, () => aReport(asking));
  // Each report counts once, although it is read back before the response.
  for (const report of reports) {
    recent.startFiling(report);
    recent.open(report, NOW);
  }
  expect(recent.capacityFor(asking, NOW)).toEqual({ ofSession: true, eventIds: [EVENT.id] });
  // A report that is being filed counts, because many can be filed concurrently.
  const filed = recent.startFiling(aReport(asking));
  expect(recent.capacityFor(asking, NOW)).toEqual({ ofSession: false, eventIds: [] });
  filed();
  const last = aReport(asking);
  recent.open(last, NOW);
  // Retracted reports count too. Otherwise, an event could get unlimited links.
  recent.retract(PROJECT, last.reportId);
  const mixed = { ...asking, eventIds: [EVENT.id, ...other.eventIds] };
  expect(recent.capacityFor(mixed, NOW)).toEqual({ ofSession: false, eventIds: other.eventIds });
  expect(recent.capacityFor(other, NOW)).toEqual({ ofSession: true, eventIds: other.eventIds });
  expect(recent.capacityFor({ ...asking, projectId: randomUUID() }, NOW).ofSession).toBe(true);
  expect(recent.capacityFor(asking, closesAtMs(aReport(asking)) + 1).ofSession).toBe(true);
});

test('a report that may not link its session’s events uses no capacity', () => {
  const recent = new OpenReports();
  recent.open(aReport({ sessionId: SESSION, maxSessionLinks: 0 }), NOW);
  expect(recent.reportsOf(PROJECT, EVENT, [], NOW)).toEqual([]);
  expect([recent.linkableReports(PROJECT, SESSION, NOW), recent.counts.windows]).toEqual([[], 0]);
  for (let filing = 0; filing < MAX_OPEN_REPORTS_PER_KEY; filing++)
    recent.startFiling(aReport({ sessionId: SESSION, maxSessionLinks: 0 }));
  expect(recent.capacityFor(aReport({ sessionId: SESSION }), NOW).ofSession).toBe(true);
});
