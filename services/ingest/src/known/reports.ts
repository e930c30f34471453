/**
 * Which bug reports exist: those of the log's first records (`firstRecords.ts`), and whether they were retracted; with
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
  type AskedEvent,
  type AskingReport,
  MAX_OPEN_WINDOWS,
  RecentReports,
  type RoomForReport,
} from './core/recentReports.ts';
import { type FirstRecordKind, type FirstRecordsDeps, openFirstRecords } from './firstRecords.ts';
import { Lacking } from './restoredTable.ts';
import { refuseUntilHidden } from './sessions.ts';
import { type FiledReport, lookUpReports, projectsWithReports, recentReports } from './storedReports.ts';

export interface Reports {
  /** @throws Unavailable when ClickHouse is needed and silent. */
  find(tenantId: string, projectId: string, id: string): Promise<FiledReport | undefined>;
  /**
   * Appends a report and returns what the log says it is: this one, or an earlier one of the id.
   * @param isDrawn its id was drawn for it: no other has it
   * @throws NotReadBack when that is not known in time: the record is in the log.
   */
  file(record: ReportLink, isDrawn?: boolean): Promise<{ report: FiledReport; isOwn: boolean }>;
  /** What a report that is filed at once may have of what it asks for. */
  roomFor(report: AskingReport): RoomForReport;
  /** Appends what is to be known of a report that exists; returns once this process has read it back. */
  append(record: ReportLink): Promise<void>;
  /**
   * The reports of a stored event, sorted: those that ClickHouse has (`linked`), those whose window is open and has it,
   * those that name it, less those that were retracted, as far as this process knows. What the linker has not done of
   * it yet it will do.
   */
  reportsOf(projectId: string, event: AskedEvent, linked?: readonly string[]): readonly string[];
  /** Whether a report's window is open for events of the session. */
  hasOpen(projectId: string, sessionId: string): boolean;
  /**
   * False: no event of the project can be linked to anything, so nobody need ask for it. From then on this process
   * knows all that other processes had filed and retracted.
   */
  areThere(tenantId: string, projectId: string): Promise<boolean>;
  /** As of `FirstRecords`. */
  holdsErased(projectId: string, id: string): Promise<boolean>;
  /** What ClickHouse's table lacks since it was restored. */
  lacks(): Promise<Unavailable | undefined>;
  readonly failed: Promise<never>;
  close(): Promise<void>;
}

/** The report is null where only its retraction has been read. */
interface Known {
  readonly filed: ReportLink | null;
  readonly retractedAt: number | null;
}

/** Ids of events, which take some 60 bytes each, as heavy as a report without any. */
const IDS_A_UNIT = 10;

export async function openReports(
  deps: FirstRecordsDeps & { store: Store; clock: Clock; isErased?: IsErased },
): Promise<Reports> {
  const { store, clock, isErased = NOTHING_ERASED } = deps;
  const recent = new RecentReports(undefined, isErased);
  const projects = new Set<string>();
  const first = await openFirstRecords(deps, kindOfReports({ store, recent, projects, clock, isErased }));
  // Otherwise any project may have some that were not in it at the start.
  const wasWhole = await untilKnown(() => first.lacks());
  return {
    failed: first.failed,
    lacks: () => first.lacks(),
    holdsErased: first.holdsErased,
    close: () => first.close(),
    find: async (tenantId, projectId, id) => stored((await first.find(tenantId, projectId, [id])).get(id)),
    roomFor: (report) => recent.roomFor(report, clock.now()),
    file: async (record) => {
      const entity = { filed: withoutContent(record), retractedAt: null };
      const end = recent.filing(record);
      const { winner, isOwn } = await first.register(record, entity).finally(end);
      return { report: stored(winner) ?? { filed: record, retractedAt: winner.retractedAt }, isOwn };
    },
    append: async (record) => void (await first.append(record)),
    areThere: async (tenantId, projectId) => {
      await first.caughtUp(tenantId);
      return projects.has(projectId) || !wasWhole;
    },
    hasOpen: (projectId, sessionId) => recent.hasOpen(projectId, sessionId, clock.now()),
    reportsOf: (projectId, event, linked = []) => recent.of(projectId, event, linked, clock.now()),
  };
}

/** A look that is late tells nothing, and the next one may. @returns whether the table was whole, as far as was told. */
async function untilKnown(lacks: () => Promise<Unavailable | undefined>): Promise<boolean> {
  for (let tries = 1; ; tries += 1) {
    const lacking = await lacks();
    if (lacking === undefined || lacking instanceof Lacking || tries === MAX_LOOKS)
      return lacking === undefined;
  }
}

/** Each takes a second at most. */
const MAX_LOOKS = 10;

function kindOfReports(known: {
  store: Store;
  recent: RecentReports;
  /** That have any report. */
  projects: Set<string>;
  clock: Clock;
  isErased: IsErased;
}): FirstRecordKind<ReportLink, Known> {
  const { store, recent, projects, clock, isErased } = known;
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
    isWhole: ({ filed }) => filed !== null,
    isErased: (_, { filed }) => filed !== null && isErased(filed),
    weightOf: ({ filed }) => 1 + idsOf(filed) / IDS_A_UNIT,
    lookUp: async (projectId, ids) =>
      new Map((await lookUpReports(store, projectId, ids)).map((report) => [report.filed.reportId, report])),
    onStart: async () => {
      const sinceMs = clock.now() - MAX_OPEN_WITH_GRACE_MS;
      const stored = await recentReports(store, { sinceMs, limit: MAX_OPEN_WINDOWS });
      for (const report of stored.toReversed()) recent.openWindow(report, clock.now());
      for (const projectId of await projectsWithReports(store)) projects.add(projectId);
    },
    onRecord: (record, { filed, retractedAt }) => {
      projects.add(record.projectId);
      if (retractedAt !== null) recent.retract(record.projectId, record.reportId);
      else if (filed !== null) recent.open(filed, clock.now());
    },
  };
}

/** Without those that were erased: memory has them still, and a late repeat is not to bring one back. */
export function reportsLeft(reports: Reports, erased: ErasedData): Reports {
  return {
    ...reports,
    find: async (tenantId, projectId, id) => {
      const report = await reports.find(tenantId, projectId, id);
      return report !== undefined && isErasedReport(erased, report.filed) ? undefined : report;
    },
    file: async (record, isDrawn = false) => {
      const { tenantId, projectId, reportId } = record;
      if (isErasedReport(erased, record))
        throw new Rejected('conflict', `report ${reportId} was erased; a new report has another id`);
      if (!isDrawn && erased.isHiding(tenantId, projectId))
        await refuseUntilHidden(reports, projectId, reportId);
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

function stored(known: Known | undefined): FiledReport | undefined {
  if (known === undefined || known.filed === null) return undefined;
  return { filed: known.filed, retractedAt: known.retractedAt };
}
