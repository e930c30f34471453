/** The answer to a new event names the reports whose window has it, and only while they are open. */
import { aReportLink } from '@questlog/schemas/fixtures/builders';
import { closesAtMs } from '@questlog/schemas/reportWindow';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { expect, test } from 'vitest';
import { OpenWindows } from './openWindows.ts';

const PROJECT = '85ac27b3-4cf8-4a46-b24b-0b6ca34e27fa';
const SESSION = '01a1fe02-7454-7000-a110-3027adf24232';

function aReport(of: Partial<ReportLink> = {}): ReportLink {
  return aReportLink({ projectId: PROJECT, sessionId: SESSION, ...of });
}

const NOW = aReport().receivedAt;
const micros = (millis: number): bigint => BigInt(millis) * 1000n;

function opened(...reports: ReportLink[]): OpenWindows {
  const windows = new OpenWindows();
  for (const report of reports) windows.open(report, NOW);
  return windows;
}

test('an event at either end of the window is inside, a microsecond beyond it is not', () => {
  const report = aReport({ windowBeforeMs: 10, windowAfterMs: 5 });
  const windows = opened(report);
  const at = (occurredAt: bigint) => windows.of(PROJECT, SESSION, occurredAt, NOW);
  expect(at(micros(NOW - 10))).toEqual([report.reportId]);
  expect(at(micros(NOW + 5))).toEqual([report.reportId]);
  expect(at(micros(NOW - 10) - 1n)).toEqual([]);
  expect(at(micros(NOW + 5) + 1n)).toEqual([]);
});

test('an event of another session, of another project or of none has none of them', () => {
  const windows = opened(aReport());
  expect(windows.of(PROJECT, aReport().projectId.replace('8', '9'), micros(NOW), NOW)).toEqual([]);
  expect(windows.of(SESSION, SESSION, micros(NOW), NOW)).toEqual([]);
  expect(windows.of(PROJECT, null, micros(NOW), NOW)).toEqual([]);
});

test('several reports of a session come sorted, each once', () => {
  const reports = [aReport(), aReport(), aReport()];
  const windows = opened(...reports, ...reports);
  expect(windows.of(PROJECT, SESSION, micros(NOW), NOW)).toEqual(
    reports.map(({ reportId }) => reportId).toSorted(),
  );
});

test('a report that is retracted is told of no more', () => {
  const report = aReport();
  const windows = opened(report, aReport({ sessionId: null }));
  windows.close(PROJECT, report.reportId);
  windows.close(PROJECT, report.reportId);
  expect(windows.of(PROJECT, SESSION, micros(NOW), NOW)).toEqual([]);
  expect(windows.size).toBe(0);
});

test('a window that has closed is let go, and does not open again', () => {
  const report = aReport();
  const windows = opened(report);
  const over = closesAtMs(report) + 1;
  expect(windows.of(PROJECT, SESSION, micros(NOW), over - 1)).toEqual([report.reportId]);
  expect(windows.of(PROJECT, SESSION, micros(NOW), over)).toEqual([]);
  windows.open(report, over);
  expect(windows.size).toBe(0);
});

test('windows of sessions that never come again are let go as others open', () => {
  const windows = new OpenWindows();
  for (let i = 0; i < 100; i++) windows.open(aReport(), NOW);
  const later = closesAtMs(aReport()) + 1;
  for (let i = 0; i < 100; i++) windows.open(aReport({ receivedAt: later }), later);
  expect(windows.size).toBe(100);
});

test('beyond the bound the oldest go, and the newest stays', () => {
  const windows = new OpenWindows(10);
  const reports = Array.from({ length: 30 }, () => aReport());
  for (const report of reports) windows.open(report, NOW);
  expect(windows.size).toBe(10);
  expect(windows.of(PROJECT, SESSION, micros(NOW), NOW)).toEqual(
    reports
      .slice(20)
      .map(({ reportId }) => reportId)
      .toSorted(),
  );
});
