/** Tests which reports and windows a new process has, from ClickHouse and from the log. */
import { randomUUID } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { aLog } from '@questlog/runtime/log/embedded/testing/testLog';
import { silentLogger } from '@questlog/runtime/process/logger';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { createCodec } from '@questlog/runtime/registry/registry';
import { aReportLink } from '@questlog/schemas/fixtures/builders';
import { partitionOf } from '@questlog/schemas/partition';
import { reportTimeOf } from '@questlog/schemas/reportWindow';
import { type ReportLink, reportLinks } from '@questlog/schemas/topics/reportLinks';
import { TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import { openReportCache, type ReportCache } from './reportCache.ts';

const PARTITIONS = 4;
const { tenantId, projectId, receivedAt } = aReportLink();
const SESSION = randomUUID();
const AT = BigInt(receivedAt) * 1000n;
const EVENT = { id: randomUUID(), sessionId: SESSION, occurredAt: AT };
const HOME = partitionOf(tenantId, 0, PARTITIONS);

function aReport(of: Partial<ReportLink> = {}): ReportLink {
  return aReportLink({ tenantId, projectId, sessionId: SESSION, ...of });
}

test('opens windows from before and after the start, except retracted ones', async () => {
  const [before, since, takenBack] = [aReport(), aReport(), aReport()];
  const reports = await started({
    stored: [before, takenBack],
    inLog: [since, { ...takenBack, kind: 'retracted' }],
  });
  expect(reports.reportsOf(projectId, EVENT)).toEqual([before.reportId, since.reportId].toSorted());
});

test('an event has the reports that name it, except retracted ones with stored links', async () => {
  const [naming, takenBack] = [aReport({ eventIds: [EVENT.id] }), aReport({ eventIds: [EVENT.id] })];
  const reports = await started({
    stored: [],
    inLog: [naming, takenBack, { ...takenBack, kind: 'retracted' }],
  });
  const event = { ...EVENT, sessionId: null };
  expect(reports.reportsOf(projectId, event, [takenBack.reportId])).toEqual([naming.reportId]);
});

test('does not lose a report that is projected during the start', async () => {
  const late = aReport();
  const reports = await started({ stored: [], inLog: [], projectedMeanwhile: late });
  expect(reports.reportsOf(projectId, EVENT)).toEqual([late.reportId]);
});

test('finds a stored report with a later retraction', async () => {
  const [kept, takenBack] = [aReport(), aReport()];
  const reports = await started({
    stored: [kept, takenBack],
    inLog: [{ ...takenBack, kind: 'retracted' }],
  });
  const found = async ({ reportId }: ReportLink) => await reports.find(tenantId, projectId, reportId);
  expect(await found(kept)).toMatchObject({ filed: { reportId: kept.reportId }, retractedAt: null });
  expect(await found(takenBack)).toMatchObject({ retractedAt: takenBack.receivedAt });
  expect(await found(aReport())).toBeUndefined();
});

test('finds the stored report if an attempt of the same request was appended later', async () => {
  const [first, again] = [[randomUUID()], [randomUUID()]].map((inlineEventIds) =>
    aReport({ inlineEventIds }),
  );
  if (first === undefined || again === undefined) throw new Error('two attempts');
  const reports = await started({ stored: [first], inLog: [{ ...again, reportId: first.reportId }] });
  expect(await reports.findFirstFiling(tenantId, projectId, first.reportId)).toMatchObject({
    filed: { inlineEventIds: first.inlineEventIds },
  });
});

test('ignores copies, retries, notices, invalid records, and records of other partitions', async () => {
  const records = [
    aReport({ isForwarded: true }),
    aReport({ kind: 'retried' }),
    aReport({ kind: 'unresolved' }),
    aReport({ windowBeforeMs: -1 }),
  ];
  const astray = aReport();
  const reports = await started({ stored: [], inLog: records, astray });
  for (const { reportId } of [...records, astray]) {
    expect(await reports.find(tenantId, projectId, reportId)).toBeUndefined();
  }
  expect(reports.reportsOf(projectId, EVENT)).toEqual([]);
});

test('a retraction before its report has no effect', async () => {
  const report = aReport();
  const reports = await started({ stored: [], inLog: [{ ...report, kind: 'retracted' }, report] });
  expect(await reports.find(tenantId, projectId, report.reportId)).toMatchObject({ retractedAt: null });
  expect(reports.reportsOf(projectId, EVENT)).toEqual([report.reportId]);
});

async function started(given: {
  /** Reports in ClickHouse. */
  stored: readonly ReportLink[];
  /** Unprojected records in the tenant's home partition. */
  inLog: readonly ReportLink[];
  astray?: ReportLink;
  /** A report in the log that is projected before the first query. */
  projectedMeanwhile?: ReportLink;
}): Promise<ReportCache> {
  const clock = { now: () => receivedAt };
  const log = await aLog({ clock });
  await log.ensureTopics(topicDefinitions(PARTITIONS));
  const registry = await openLogRegistry(log);
  const codec = await createCodec(registry, reportLinks);
  const append = async (record: ReportLink, partition: number): Promise<void> => {
    await log.append(TOPICS.reportLinks, partition, [{ key: tenantId, value: codec.encode(record) }]);
  };
  for (const record of given.inLog) await append(record, HOME);
  if (given.astray !== undefined) await append(given.astray, (HOME + 1) % PARTITIONS);
  const late = given.projectedMeanwhile;
  if (late !== undefined) await append(late, HOME);

  let isAsked = false;
  const projected = (): number[] => {
    const offsets: number[] = Array(PARTITIONS).fill(0);
    if (late !== undefined && isAsked) offsets[HOME] = 1;
    isAsked = true;
    return offsets;
  };
  const projection = {
    caughtUp: async () => {},
    projected: async () => projected(),
    lastRecords: async () => [],
  };
  const rows = () => (late !== undefined && isAsked ? [...given.stored, late] : given.stored);
  const store = storeOf(() => {
    const now = rows();
    isAsked = true;
    return now;
  });
  const reports = await openReportCache({ log, store, registry, projection, logger: silentLogger, clock });
  onTestFinished(() => reports.close());
  return reports;
}

/** Returns a store that answers queries with these reports. */
function storeOf(stored: () => readonly ReportLink[]): Store {
  const refuse = (): Promise<never> => Promise.reject(new Error('not asked here'));
  return {
    database: 'questlog',
    query: async <Row>(_: string, params: Readonly<Record<string, unknown>> = {}): Promise<Row[]> => {
      const ids: unknown = params['ids'];
      const asked = stored().filter(({ reportId }) => !Array.isArray(ids) || ids.includes(reportId));
      return JSON.parse(JSON.stringify(asked.map(rowOf)));
    },
    queryRaw: refuse,
    stream: refuse,
    command: refuse,
    insert: refuse,
    insertsEndWithinMs: 0,
    ping: async () => true,
    close: async () => {},
  };
}

function rowOf(report: ReportLink): object {
  return {
    ...report,
    occurredAt: String(reportTimeOf(report)),
    receivedAt: String(report.receivedAt),
    requestDigest: null,
    retractedAt: null,
  };
}
