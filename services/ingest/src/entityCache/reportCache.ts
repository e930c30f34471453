/**
 * Which bug reports exist: those of the log's first records (`entityCache.ts`), and whether they were retracted; with
 * them what the latest say of an event's links, so that no answer has to wait until these are made.
 */

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
  /** @throws Unavailable when ClickHouse is needed and silent. */
  find(tenantId: string, projectId: string, id: string): Promise<FiledReport | undefined>;
  /**
   * Appends a report and returns what the log says it is: this one, or an earlier one of the id.
   * @param isGenerated its id was drawn for it: no other has it
   * @throws NotReadBack when that is not known in time: the record is in the log.
   */
  file(record: ReportLink, isGenerated?: boolean): Promise<{ report: FiledReport; isOwn: boolean }>;
  /** What a report that is filed at once may have of what it asks for. */
  capacityFor(report: RequestedLinks): ReportCapacity;
  /** Appends what is to be known of a report that exists; returns once this process has read it back. */
  append(record: ReportLink): Promise<void>;
  /**
   * The reports of a stored event, sorted: those that ClickHouse has (`linked`), those whose window is open and has it,
   * those that name it, less those that were retracted, as far as this process knows. What the linker has not done of
   * it yet it will do.
   */
  reportsOf(projectId: string, event: LinkableEvent, linked?: readonly string[]): readonly string[];
  /** Whether a report's window is open for events of the session. */
  hasOpenWindow(projectId: string, sessionId: string): boolean;
  /**
   * False: no event of the project can be linked to anything, so nobody need ask for it. From then on this process
   * knows all that other processes had filed and retracted.
   */
  hasReports(tenantId: string, projectId: string): Promise<boolean>;
  /** As of `FirstRecords`. */
  hasErased(projectId: string, id: string): Promise<boolean>;
  /** What ClickHouse's table lacks since it was restored. */
  errorIfIncomplete(): Promise<Unavailable | undefined>;
  readonly failed: Promise<never>;
  close(): Promise<void>;
}

/** The report is null where only its retraction has been read. */
interface CachedReport {
  readonly filed: ReportLink | null;
  readonly retractedAt: number | null;
}

/** Ids of events, which take some 60 bytes each, as heavy as a report without any. */
const EVENT_IDS_PER_WEIGHT = 10;

export async function openReportCache(
  deps: EntityCacheDeps & { store: Store; clock: Clock; isErased?: IsErased },
): Promise<ReportCache> {
  const { store, clock, isErased = NOTHING_ERASED } = deps;
  const openReports = new OpenReports(undefined, isErased);
  const projects = new Set<string>();
  const cache = await openEntityCache(deps, reportType({ store, openReports, projects, clock, isErased }));
  // Otherwise any project may have some that were not in it at the start.
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

/** A look that is late tells nothing, and the next one may. @returns whether the table was whole, as far as was told. */
async function checkComplete(errorIfIncomplete: () => Promise<Unavailable | undefined>): Promise<boolean> {
  for (let attempt = 1; ; attempt += 1) {
    const incomplete = await errorIfIncomplete();
    if (incomplete === undefined || incomplete instanceof TableIncomplete || attempt === MAX_CHECKS)
      return incomplete === undefined;
  }
}

/** Each takes a second at most. */
const MAX_CHECKS = 10;

function reportType(cached: {
  store: Store;
  openReports: OpenReports;
  /** That have any report. */
  projects: Set<string>;
  clock: Clock;
  isErased: IsErased;
}): EntityType<ReportLink, CachedReport> {
  const { store, openReports, projects, clock, isErased } = cached;
  return {
    contract: reportLinks,
    nameOf: ({ tenantId, projectId, reportId }) => ({ tenantId, projectId, id: reportId }),
    entityOf: (record, partition, partitions) => {
      if (record.isForwarded || !isAtHome(record, partition, partitions)) return undefined;
      if (faultOf(record) !== undefined) return undefined;
      if (record.kind === 'filed') return { filed: withoutContent(record), retractedAt: null };
      return record.kind === 'retracted' ? { filed: null, retractedAt: record.receivedAt } : undefined;
    },
    // A retraction that came before its report retracts nothing.
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
      const filedReport = await storedOpenReports(store, { sinceMs, limit: MAX_OPEN_WINDOWS });
      for (const report of filedReport.toReversed()) openReports.openWindow(report, clock.now());
      for (const projectId of await projectsWithReports(store)) projects.add(projectId);
    },
    onRecord: (record, { filed, retractedAt }) => {
      projects.add(record.projectId);
      if (retractedAt !== null) openReports.retract(record.projectId, record.reportId);
      else if (filed !== null) openReports.open(filed, clock.now());
    },
  };
}

/** Without those that were erased: memory has them still, and a late repeat is not to bring one back. */
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

/** It is up to 200 KB, and ClickHouse has it. */
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
