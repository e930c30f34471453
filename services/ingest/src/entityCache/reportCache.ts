/** Cache of bug reports and of the links that they will get (see `entityCache.ts`). */

import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Clock } from '@questlog/runtime/process/clock';
import type { Unavailable } from '@questlog/runtime/process/errors';
import { type ErasedData, isErasedReport } from '@questlog/schemas/erased';
import { MAX_OPEN_WITH_GRACE_MS } from '@questlog/schemas/reportWindow';
import { faultOf, isAtHome, type ReportLink, reportLinks } from '@questlog/schemas/topics/reportLinks';
import { Rejected } from '../rejected.ts';
import { type IsErased, NOTHING_ERASED } from './core/isErased.ts';
import {
  type LinkableEvent,
  MAX_OPEN_WINDOWS,
  OpenReports,
  type ReportCapacity,
  type RequestedLinks,
} from './core/openReports.ts';
import { type EntityCacheDeps, type EntityType, openEntityCache } from './entityCache.ts';
import { TableIncomplete } from './restoredTable.ts';
import { rejectUntilHidden } from './sessionCache.ts';
import { type FiledReport, lookUpReports, projectsWithReports, storedOpenReports } from './storedReports.ts';

export interface ReportCache {
  /** @throws Unavailable if ClickHouse is needed but does not answer. */
  find(tenantId: string, projectId: string, id: string): Promise<FiledReport | undefined>;
  /**
   * Files a report. Returns the filed report: the given report, or an earlier report with the same id. @throws ReadBackTimeout
   * @param isGenerated true if the server generated the id
   */
  file(record: ReportLink, isGenerated?: boolean): Promise<{ report: FiledReport; isOwn: boolean }>;
  /** Returns which of the requested links a new report may have. */
  capacityFor(report: RequestedLinks): ReportCapacity;
  /** Appends a record of an existing report and reads it back. */
  append(record: ReportLink): Promise<void>;
  /**
   * Returns an event's reports, except retracted reports: the stored links (`linked`), reports with an open window, and reports
   * that name the event.
   */
  reportsOf(projectId: string, event: LinkableEvent, linked?: readonly string[]): readonly string[];
  hasOpenWindow(projectId: string, sessionId: string): boolean;
  /** False if the project has no reports at the current end of the log. */
  hasReports(tenantId: string, projectId: string): Promise<boolean>;
  hasErased(projectId: string, id: string): Promise<boolean>;
  errorIfIncomplete(): Promise<Unavailable | undefined>;
  readonly failed: Promise<never>;
  close(): Promise<void>;
}

/** `filed` is null if only the retraction has been read. */
interface CachedReport {
  readonly filed: ReportLink | null;
  readonly retractedAt: number | null;
}

/** Number of event ids that have one unit of weight. An event id takes about 60 bytes. */
const EVENT_IDS_PER_WEIGHT = 10;

export async function openReportCache(
  deps: EntityCacheDeps & { store: Store; clock: Clock; isErased?: IsErased },
): Promise<ReportCache> {
  const { store, clock, isErased = NOTHING_ERASED } = deps;
  const openReports = new OpenReports(undefined, isErased);
  const projects = new Set<string>();
  const cache = await openEntityCache(deps, reportType({ store, openReports, projects, clock, isErased }));
  // If the table was incomplete, any project may have reports that were not in the table.
  const wasComplete = await checkComplete(() => cache.errorIfIncomplete());
  return {
    failed: cache.failed,
    errorIfIncomplete: () => cache.errorIfIncomplete(),
    hasErased: cache.hasErased,
    close: () => cache.close(),
    find: async (tenantId, projectId, id) =>
      filedReport((await cache.find(tenantId, projectId, [id])).get(id)),
    capacityFor: (report) => openReports.capacityFor(report, clock.now()),
    file: async (record) => {
      const entity = { filed: withoutContent(record), retractedAt: null };
      const endFiling = openReports.startFiling(record);
      const { registered: winner, isOwn } = await cache.register(record, entity).finally(endFiling);
      return { report: filedReport(winner) ?? { filed: record, retractedAt: winner.retractedAt }, isOwn };
    },
    append: async (record) => void (await cache.append(record)),
    hasReports: async (tenantId, projectId) => {
      await cache.caughtUp(tenantId);
      return projects.has(projectId) || !wasComplete;
    },
    hasOpenWindow: (projectId, sessionId) => openReports.hasOpen(projectId, sessionId, clock.now()),
    reportsOf: (projectId, event, linked = []) =>
      openReports.reportsOf(projectId, event, linked, clock.now()),
  };
}

/** True if the table is complete. Repeats a check that times out. */
async function checkComplete(errorIfIncomplete: () => Promise<Unavailable | undefined>): Promise<boolean> {
  for (let attempt = 1; ; attempt += 1) {
    const incomplete = await errorIfIncomplete();
    if (incomplete === undefined || incomplete instanceof TableIncomplete || attempt === MAX_CHECKS)
      return incomplete === undefined;
  }
}

/** Maximum checks of the table, at most one second each. */
const MAX_CHECKS = 10;

function reportType(deps: {
  store: Store;
  openReports: OpenReports;
  /** Projects that have a report. */
  projects: Set<string>;
  clock: Clock;
  isErased: IsErased;
}): EntityType<ReportLink, CachedReport> {
  const { store, openReports, projects, clock, isErased } = deps;
  return {
    contract: reportLinks,
    nameOf: ({ tenantId, projectId, reportId }) => ({ tenantId, projectId, id: reportId }),
    entityOf: (record, partition, partitions) => {
      if (record.isForwarded || !isAtHome(record, partition, partitions)) return undefined;
      if (faultOf(record) !== undefined) return undefined;
      if (record.kind === 'filed') return { filed: withoutContent(record), retractedAt: null };
      return record.kind === 'retracted' ? { filed: null, retractedAt: record.receivedAt } : undefined;
    },
    // A retraction has no effect if it precedes its report in the log.
    merge: (earlier, later) =>
      earlier.filed === null
        ? later
        : { filed: earlier.filed, retractedAt: earlier.retractedAt ?? later.retractedAt },
    isComplete: ({ filed }) => filed !== null,
    isErased: (_, { filed }) => filed !== null && isErased(filed),
    weightOf: ({ filed }) => 1 + idsOf(filed) / EVENT_IDS_PER_WEIGHT,
    lookUp: async (projectId, ids) =>
      new Map((await lookUpReports(store, projectId, ids)).map((report) => [report.filed.reportId, report])),
    onStart: async () => {
      const sinceMs = clock.now() - MAX_OPEN_WITH_GRACE_MS;
      const reports = await storedOpenReports(store, { sinceMs, limit: MAX_OPEN_WINDOWS });
      for (const report of reports.toReversed()) openReports.openWindow(report, clock.now());
      for (const projectId of await projectsWithReports(store)) projects.add(projectId);
    },
    onRecord: (record, { filed, retractedAt }) => {
      projects.add(record.projectId);
      if (retractedAt !== null) openReports.retract(record.projectId, record.reportId);
      else if (filed !== null) openReports.open(filed, clock.now());
    },
  };
}

/** Hides erased reports, which the cache still contains, so that a late retry does not return an erased report. */
export function excludeErasedReports(reports: ReportCache, erased: ErasedData): ReportCache {
  return {
    ...reports,
    find: async (tenantId, projectId, id) => {
      const report = await reports.find(tenantId, projectId, id);
      return report !== undefined && isErasedReport(erased, report.filed) ? undefined : report;
    },
    file: async (record, isGenerated = false) => {
      const { tenantId, projectId, reportId } = record;
      if (isErasedReport(erased, record))
        throw new Rejected('conflict', `report ${reportId} was erased; a new report has another id`);
      if (!isGenerated && erased.isHiding(tenantId, projectId))
        await rejectUntilHidden(reports, projectId, reportId);
      return await reports.file(record);
    },
  };
}

/** Returns the record without its content. The content has up to 200 KB, and is stored in ClickHouse. */
function withoutContent(record: ReportLink): ReportLink {
  return { ...record, content: null };
}

function idsOf(filed: ReportLink | null): number {
  return filed === null ? 0 : filed.inlineEventIds.length + filed.eventIds.length;
}

function filedReport(cached: CachedReport | undefined): FiledReport | undefined {
  if (cached === undefined || cached.filed === null) return undefined;
  return { filed: cached.filed, retractedAt: cached.retractedAt };
}
