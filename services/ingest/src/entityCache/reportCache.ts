/** Cache of bug reports (see `entityCache.ts`). Also predicts the links between new events and these reports. */

import { TableIncomplete } from '@questlog/runtime/clickhouse/restored/restoredTable';
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Clock } from '@questlog/runtime/process/clock';
import type { Unavailable } from '@questlog/runtime/process/errors';
import { MAX_OPEN_WITH_GRACE_MS } from '@questlog/schemas/reportWindow';
import { faultOf, isAtHome, type ReportLink, reportLinks } from '@questlog/schemas/topics/reportLinks';
import type { IsVisible } from '@questlog/schemas/visibility';
import {
  type LinkableEvent,
  MAX_NAMED_IDS,
  MAX_OPEN_WINDOWS,
  type OpenReport,
  OpenReports,
  type ReportCapacity,
  type RequestedLinks,
} from './core/openReports.ts';
import { type EntityCacheDeps, type EntityType, openEntityCache } from './entityCache.ts';
import { type FiledReport, lookUpReports, projectsWithReports, storedOpenReports } from './storedReports.ts';

export interface ReportCache {
  /** @throws Unavailable if the report is not in memory and ClickHouse does not answer */
  find(tenantId: string, projectId: string, id: string): Promise<FiledReport | undefined>;
  /**
   * Returns the first record of a report. If a client sends a report again because it got no answer, the new record has new ids
   * of inline events. Only the first record is valid.
   * @throws Unavailable if ClickHouse does not answer
   */
  findFirstFiling(tenantId: string, projectId: string, id: string): Promise<FiledReport | undefined>;
  /** Appends a bug report, or returns an existing report with the same id. @throws ReadBackTimeout after a time limit */
  file(record: ReportLink, isGenerated?: boolean): Promise<{ report: FiledReport; isOwn: boolean }>;
  capacityFor(report: RequestedLinks): ReportCapacity;
  /** Appends a further record of an existing bug report, and waits until this process has read this record from the log. */
  append(record: ReportLink): Promise<void>;
  /** Returns the ids of the event's reports, except retracted reports. `linked` contains reports with links in ClickHouse. */
  reportsOf(projectId: string, event: LinkableEvent, linked?: readonly string[]): readonly string[];
  /** Returns the session's open reports to which the linker can still link events. */
  linkableReports(projectId: string, sessionId: string): readonly OpenReport[];
  /**
   * True if an open report of the project lists event ids. A report can list an event that is not stored yet, because the id of
   * an event can be derived from an idempotency key.
   */
  hasNamedEvents(projectId: string): boolean;
  /** True if the project has a bug report. Reads the topic to its end before the check. */
  hasReports(tenantId: string, projectId: string): Promise<boolean>;
  hasHidden(projectId: string, id: string, isDeleting: boolean): Promise<boolean>;
  errorIfIncomplete(): Promise<Unavailable | undefined>;
  readonly failed: Promise<never>;
  close(): Promise<void>;
}

/** Bug report in the cache. `filed` is null if the cache has read only the report's retraction. */
interface CachedReport {
  readonly filed: ReportLink | null;
  readonly retractedAt: number | null;
}

/** Ten event ids count as one unit of weight, because they take about 600 bytes of memory. */
const EVENT_IDS_PER_WEIGHT = 10;

export async function openReportCache(
  deps: EntityCacheDeps & { clock: Clock; isVisible?: IsVisible },
): Promise<ReportCache> {
  const { store, clock, isVisible = () => true } = deps;
  const openReports = new OpenReports(undefined, isVisible);
  const add = deps.metrics?.resources.add;
  add?.({ resource: 'open_report_windows', limit: MAX_OPEN_WINDOWS, used: () => openReports.counts.windows });
  add?.({ resource: 'open_report_event_ids', limit: MAX_NAMED_IDS, used: () => openReports.counts.namedIds });
  const projects = new Set<string>();
  const cache = await openEntityCache(deps, reportType({ store, openReports, projects, clock, isVisible }));
  // Treats every project as a project with reports if ClickHouse's table of reports was incomplete at the start of the process.
  const wasComplete = await checkComplete(() => cache.errorIfIncomplete());
  return {
    failed: cache.failed,
    errorIfIncomplete: () => cache.errorIfIncomplete(),
    hasHidden: cache.hasHidden,
    close: () => cache.close(),
    find: async (tenantId, projectId, id) =>
      filedReport((await cache.find(tenantId, projectId, [id])).get(id)),
    findFirstFiling: async (tenantId, projectId, id) =>
      filedReport((await cache.find(tenantId, projectId, [id], true)).get(id)),
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
    linkableReports: (projectId, sessionId) => openReports.linkableReports(projectId, sessionId, clock.now()),
    hasNamedEvents: (projectId) => openReports.hasNamedEvents(projectId),
    reportsOf: (projectId, event, linked = []) =>
      openReports.reportsOf(projectId, event, linked, clock.now()),
  };
}

async function checkComplete(errorIfIncomplete: () => Promise<Unavailable | undefined>): Promise<boolean> {
  for (let attempt = 1; ; attempt += 1) {
    const incomplete = await errorIfIncomplete();
    if (incomplete === undefined || incomplete instanceof TableIncomplete || attempt === MAX_CHECKS)
      return incomplete === undefined;
  }
}

/** Maximum number of checks of the report table when the process starts. A check takes at most one second. */
const MAX_CHECKS = 10;

function reportType(deps: {
  store: Store;
  openReports: OpenReports;
  projects: Set<string>;
  clock: Clock;
  isVisible: IsVisible;
}): EntityType<ReportLink, CachedReport> {
  const { store, openReports, projects, clock, isVisible } = deps;
  return {
    contract: reportLinks,
    resource: 'report_cache_bytes',
    nameOf: ({ tenantId, projectId, reportId }) => ({ tenantId, projectId, id: reportId }),
    entityOf: (record, partition, partitions) => {
      if (record.isForwarded || !isAtHome(record, partition, partitions)) return undefined;
      if (faultOf(record) !== undefined) return undefined;
      if (record.kind === 'filed') return { filed: withoutContent(record), retractedAt: null };
      return record.kind === 'retracted' ? { filed: null, retractedAt: record.receivedAt } : undefined;
    },
    // Ignores an earlier retraction, because only a retraction that follows its report in the log is valid.
    merge: (earlier, later) =>
      earlier.filed === null
        ? later
        : { filed: earlier.filed, retractedAt: earlier.retractedAt ?? later.retractedAt },
    isComplete: ({ filed }) => filed !== null,
    isVisible: (_, { filed }) => filed === null || isVisible(filed),
    weightOf: ({ filed }) => 1 + idsOf(filed) / EVENT_IDS_PER_WEIGHT,
    lookUp: async (projectId, ids, node = store) =>
      new Map((await lookUpReports(node, projectId, ids)).map((report) => [report.filed.reportId, report])),
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

/** Removes the report's content, which can have 200 KB. Readers get the content from ClickHouse. */
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
