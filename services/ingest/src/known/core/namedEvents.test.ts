/** An event that an open report names is known by its id, in its own project only, for as long as the report is open. */
import { randomUUID } from 'node:crypto';
import { aReportLink } from '@questlog/schemas/fixtures/builders';
import { closesAtMs } from '@questlog/schemas/reportWindow';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { expect, test } from 'vitest';
import { NamedEvents } from './namedEvents.ts';

const PROJECT = '85ac27b3-4cf8-4a46-b24b-0b6ca34e27fa';
const EVENT = '01a1fe02-7454-7000-a110-3027adf24232';

function aReport(of: Partial<ReportLink> = {}): ReportLink {
  return aReportLink({ projectId: PROJECT, eventIds: [EVENT], ...of });
}

const NOW = aReport().receivedAt;

function opened(...reports: ReportLink[]): NamedEvents {
  const named = new NamedEvents();
  for (const report of reports) named.open(report, NOW);
  return named;
}

test('an event has the reports that name it and those that brought it, each once', () => {
  const [byId, inside] = [aReport(), aReport({ inlineEventIds: [EVENT] })];
  const named = opened(byId, inside, byId, aReport({ eventIds: [randomUUID()] }));
  expect(named.of(PROJECT, EVENT, NOW).toSorted()).toEqual([byId.reportId, inside.reportId].toSorted());
});

test('a report of another project that names the event does not show it', () => {
  const named = opened(aReport({ projectId: randomUUID() }));
  expect(named.of(PROJECT, EVENT, NOW)).toEqual([]);
});

test('a report that is retracted is told of no more, and takes no other with it', () => {
  const [kept, gone] = [aReport(), aReport({ eventIds: [EVENT, randomUUID()] })];
  const named = opened(kept, gone);
  named.close(PROJECT, gone.reportId);
  named.close(PROJECT, gone.reportId);
  expect(named.of(PROJECT, EVENT, NOW)).toEqual([kept.reportId]);
  named.close(PROJECT, kept.reportId);
  expect([named.of(PROJECT, EVENT, NOW), named.weight]).toEqual([[], 0]);
});

test('an event that comes after its report was let go does not have it', () => {
  const report = aReport();
  const named = opened(report);
  const closesAt = closesAtMs(report);
  expect(named.of(PROJECT, EVENT, closesAt)).toEqual([report.reportId]);
  expect(named.of(PROJECT, EVENT, closesAt + 1)).toEqual([]);
  const later = new NamedEvents();
  later.open(report, closesAt + 1);
  expect(later.weight).toBe(0);
});

test('reports that are over are let go as others open', () => {
  const named = opened(...Array.from({ length: 100 }, () => aReport()));
  const later = closesAtMs(aReport()) + 1;
  for (let i = 0; i < 100; i++) named.open(aReport({ receivedAt: later }), later);
  expect(named.weight).toBe(100);
});

test('beyond the bound the oldest go, however many ids one report names', () => {
  const named = new NamedEvents(1_000);
  const light = Array.from({ length: 600 }, () => aReport({ eventIds: [randomUUID()] }));
  for (const report of light) named.open(report, NOW);
  const heavy = aReport({ eventIds: Array.from({ length: 900 }, () => randomUUID()) });
  named.open(heavy, NOW);
  expect(named.weight).toBe(1_000);
  const known = (report: ReportLink) => named.of(PROJECT, report.eventIds[0] ?? '', NOW).length;
  expect(light.map(known)).toEqual(light.map((_, at) => (at < 500 ? 0 : 1)));
  expect(known(heavy)).toBe(1);
});
