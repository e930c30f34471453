/**
 * Which bug reports exist: those of the log's first records (`firstRecords.ts`), and whether they were retracted; with
 * them the windows that are open, so that the answer to a new event can tell of its reports.
 */
import type { Clock } from '@questlog/runtime/process/clock';
import type { Store } from '@questlog/runtime/store/store';
import { faultOf, isAtHome, type ReportLink, reportLinks } from '@questlog/schemas/topics/reportLinks';
import { MAX_OPEN_WINDOWS, OpenWindows } from './core/openWindows.ts';
import { type EntityKind, type FirstRecordsDeps, openFirstRecords } from './firstRecords.ts';
import { lookUpReports, projectsWithReports, recentReports, type StoredReport } from './reportRows.ts';

export interface Reports {
  /** @throws Unavailable when ClickHouse is needed and silent. */
  find(tenantId: string, projectId: string, id: string): Promise<StoredReport | undefined>;
  /** Appends a report and returns what the log says it is: this one, or an earlier one of the id. */
  file(record: ReportLink): Promise<{ report: StoredReport; isOwn: boolean }>;
  /** Appends what is to be known of a report that exists; returns once this process has read it back. */
  append(record: ReportLink): Promise<void>;
  /** The reports whose window is open and has the event, as far as this process knows; sorted. */
  openFor(projectId: string, sessionId: string | null, occurredAt: bigint): readonly string[];
  /**
   * False: no event of the project can be linked to anything, so nobody need ask for it. Where none is known, asks the
   * log whether one was filed through another process.
   */
  areThere(tenantId: string, projectId: string): Promise<boolean>;
  readonly failed: Promise<never>;
  close(): Promise<void>;
}

/** The report is null where only its retraction has been read. */
interface Known {
  readonly filed: ReportLink | null;
  readonly isRetracted: boolean;
}

/** Ids of events, which take some 60 bytes each, as heavy as a report without any. */
const IDS_A_UNIT = 10;

/** A window is open for little more than a day after the report was received. */
const OPEN_FOR_MS = 25 * 60 * 60 * 1000;

export async function openReports(deps: FirstRecordsDeps & { store: Store; clock: Clock }): Promise<Reports> {
  const { store, clock } = deps;
  const windows = new OpenWindows();
  const projects = new Set<string>();
  const first = await openFirstRecords(deps, kindOfReports({ store, windows, projects, clock }));
  return {
    failed: first.failed,
    close: () => first.close(),
    find: async (tenantId, projectId, id) => stored((await first.find(tenantId, projectId, [id])).get(id)),
    file: async (record) => {
      const { winner, isOwn } = await first.register(record, { filed: record, isRetracted: false });
      return { report: stored(winner) ?? { filed: record, isRetracted: winner.isRetracted }, isOwn };
    },
    append: async (record) => void (await first.append(record)),
    areThere: async (tenantId, projectId) => {
      if (!projects.has(projectId)) await first.caughtUp(tenantId);
      return projects.has(projectId);
    },
    openFor: (projectId, sessionId, occurredAt) => windows.of(projectId, sessionId, occurredAt, clock.now()),
  };
}

function kindOfReports(known: {
  store: Store;
  windows: OpenWindows;
  /** That have any report. */
  projects: Set<string>;
  clock: Clock;
}): EntityKind<ReportLink, Known> {
  const { store, windows, projects, clock } = known;
  return {
    contract: reportLinks,
    nameOf: ({ tenantId, projectId, reportId }) => ({ tenantId, projectId, id: reportId }),
    entityOf: (record, partition, partitions) => {
      if (record.isForwarded || !isAtHome(record, partition, partitions)) return undefined;
      if (faultOf(record) !== undefined) return undefined;
      if (record.kind === 'filed') return { filed: record, isRetracted: false };
      return record.kind === 'retracted' ? { filed: null, isRetracted: true } : undefined;
    },
    // A retraction that came before its report retracts nothing.
    merge: (earlier, later) =>
      earlier.filed === null
        ? later
        : { filed: earlier.filed, isRetracted: earlier.isRetracted || later.isRetracted },
    isWhole: ({ filed }) => filed !== null,
    weightOf: ({ filed }) => 1 + idsOf(filed) / IDS_A_UNIT,
    lookUp: async (projectId, ids) =>
      new Map((await lookUpReports(store, projectId, ids)).map((report) => [report.filed.reportId, report])),
    onStart: async () => {
      const sinceMs = clock.now() - OPEN_FOR_MS;
      const recent = await recentReports(store, { sinceMs, limit: MAX_OPEN_WINDOWS });
      for (const report of recent.toReversed()) windows.open(report, clock.now());
      for (const projectId of await projectsWithReports(store)) projects.add(projectId);
    },
    onRecord: (record, { filed, isRetracted }) => {
      projects.add(record.projectId);
      if (isRetracted) windows.close(record.projectId, record.reportId);
      else if (filed !== null) windows.open(filed, clock.now());
    },
  };
}

function idsOf(filed: ReportLink | null): number {
  return filed === null ? 0 : filed.inlineEventIds.length + filed.eventIds.length;
}

function stored(known: Known | undefined): StoredReport | undefined {
  if (known === undefined || known.filed === null) return undefined;
  return { filed: known.filed, isRetracted: known.isRetracted };
}
