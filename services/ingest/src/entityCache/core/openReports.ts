/** Predicts the reports that the linker will link to a new event, so that the response can contain the report ids. Pure. */
import { BoundedMap } from '@questlog/runtime/process/boundedMap';
import { MultiMap } from '@questlog/schemas/multiMap';
import {
  closesAtMs,
  isInWindow,
  namedEventsOf,
  type ReportWindow,
  windowOf,
} from '@questlog/schemas/reportWindow';
import type { AcceptedEvent } from '@questlog/schemas/topics/eventsAccepted';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import type { IsVisible } from '@questlog/schemas/visibility';

export type LinkableEvent = Pick<AcceptedEvent, 'id' | 'sessionId' | 'occurredAt'>;

export type WindowedReport = Pick<
  ReportLink,
  | 'projectId'
  | 'reportId'
  | 'sessionId'
  | 'occurredAt'
  | 'receivedAt'
  | 'windowBeforeMs'
  | 'windowAfterMs'
  | 'maxSessionLinks'
>;

/** Session id and event ids in a bug report. The report can be linked only to events of this session or with these ids. */
export type RequestedLinks = Pick<ReportLink, 'projectId' | 'sessionId' | 'eventIds'>;
type FilingReport = RequestedLinks & Pick<ReportLink, 'reportId' | 'maxSessionLinks'>;

export const MAX_OPEN_WINDOWS = 100_000;
/**
 * Maximum number of cached event ids that are listed in open reports. Each id needs about 260 bytes. If an id is not cached,
 * the response to the event omits the report, but the linker still links the event.
 */
export const MAX_NAMED_IDS = 100_000;
/** Maximum number of cached ids of retracted reports. An id is needed until the linker has retracted the report's links. */
export const MAX_RETRACTED = 100_000;
/** Maximum open reports per session or event. Each link stores a copy of the event's payload, which can have 250 KB. */
export const MAX_OPEN_REPORTS_PER_KEY = 50;

export class OpenReports {
  readonly #bySession: ReportsByKey;
  readonly #byEvent: ReportsByKey;
  readonly #filing = new MultiMap<FilingReport>();
  readonly #retracted: BoundedMap<string, true>;
  readonly #isVisible: IsVisible;
  readonly #isLinkable = (report: OpenReport): boolean => !report.isRetracted && this.#isVisible(report);

  constructor(
    { windows = MAX_OPEN_WINDOWS, namedIds = MAX_NAMED_IDS, retracted = MAX_RETRACTED } = {},
    isVisible: IsVisible = () => true,
  ) {
    this.#isVisible = isVisible;
    this.#bySession = new ReportsByKey(windows);
    this.#byEvent = new ReportsByKey(namedIds);
    this.#retracted = new BoundedMap(retracted);
  }

  get counts(): { windows: number; namedIds: number } {
    return { windows: this.#bySession.keys, namedIds: this.#byEvent.keys };
  }

  /** True if an open report of the project lists event ids. */
  hasNamedEvents(projectId: string): boolean {
    return this.#byEvent.hasReports(projectId);
  }

  open(report: ReportLink, nowMs: number): void {
    // Deletes an earlier retraction of the report, because only a retraction that follows its report in the log is valid.
    this.#retracted.delete(nameOf(report.projectId, report.reportId));
    this.openWindow(report, nowMs);
    this.#byEvent.open(report, [...namedEventsOf(report).keys()], nowMs);
  }

  openWindow(report: WindowedReport, nowMs: number): void {
    const { sessionId, maxSessionLinks } = report;
    this.#bySession.open(report, sessionId === null || maxSessionLinks === 0 ? [] : [sessionId], nowMs);
  }

  /** Returns a report's requested links, except links to an event or session that already has the maximum of open reports. */
  capacityFor({ projectId, sessionId, eventIds }: RequestedLinks, nowMs: number): ReportCapacity {
    const hasCapacity = (open: ReportsByKey, id: string, filingKey = id): boolean => {
      const opened = open.openAt(projectId, id, nowMs);
      const existing = new Set(opened.map(({ reportId }) => reportId));
      for (const { reportId } of this.#filing.get(nameOf(projectId, filingKey))) existing.add(reportId);
      return existing.size < MAX_OPEN_REPORTS_PER_KEY;
    };
    return {
      ofSession: sessionId !== null && hasCapacity(this.#bySession, sessionId, `session/${sessionId}`),
      eventIds: eventIds.filter((id) => hasCapacity(this.#byEvent, id)),
    };
  }

  /** Counts a report as open while the report is being appended. The caller ends this state with the returned function. */
  startFiling(report: FilingReport): () => void {
    const { projectId, sessionId, eventIds, maxSessionLinks } = report;
    const ofSession = sessionId === null || maxSessionLinks === 0 ? [] : [`session/${sessionId}`];
    const names = [...eventIds, ...ofSession].map((id) => nameOf(projectId, id));
    for (const name of names) this.#filing.add(name, report);
    return () => {
      for (const name of names) this.#filing.delete(name, report);
    };
  }

  retract(projectId: string, reportId: string): void {
    const name = nameOf(projectId, reportId);
    this.#bySession.retract(name);
    this.#byEvent.retract(name);
    this.#retracted.set(name, true);
  }

  /** Returns the session's open reports. Omits retracted and erased reports, because the linker creates no links for them. */
  linkableReports(projectId: string, sessionId: string | null, nowMs: number): readonly OpenReport[] {
    return this.#linkableOf(this.#bySession, projectId, sessionId, nowMs);
  }

  /** Returns the ids of the event's reports. `linked` contains the report ids of the event's links in ClickHouse. */
  reportsOf(
    projectId: string,
    { id, sessionId, occurredAt }: LinkableEvent,
    linked: readonly string[],
    nowMs: number,
  ): readonly string[] {
    const open = this.linkableReports(projectId, sessionId, nowMs);
    const named = this.#linkableOf(this.#byEvent, projectId, id, nowMs).map(({ reportId }) => reportId);
    if (linked.length === 0 && open.length === 0 && named.length === 0) return NONE;
    const all = new Set([...linked, ...named, ...reportsInWindow(open, occurredAt)]);
    return [...all].filter((reportId) => !this.#retracted.has(nameOf(projectId, reportId))).sort();
  }

  #linkableOf(
    reports: ReportsByKey,
    projectId: string,
    id: string | null,
    nowMs: number,
  ): readonly OpenReport[] {
    const open = reports.openAt(projectId, id, nowMs);
    return open.every(this.#isLinkable) ? open : open.filter(this.#isLinkable);
  }
}

/** Returns the sorted ids of the reports whose time window contains the event's time. */
export function reportsInWindow(reports: readonly OpenReport[], occurredAt: bigint): string[] {
  const ids: string[] = [];
  for (const { window, reportId } of reports) if (isInWindow(occurredAt, window)) ids.push(reportId);
  // Sorts only if necessary, because most events belong to at most one report.
  return ids.length > 1 ? ids.sort() : ids;
}

export interface ReportCapacity {
  readonly ofSession: boolean;
  readonly eventIds: readonly string[];
}

export interface OpenReport {
  readonly projectId: string;
  readonly reportId: string;
  readonly sessionId: string | null;
  readonly receivedAt: number;
  readonly window: ReportWindow;
  readonly closesAt: number;
  /** Ids under which the report is indexed: the session id, or the ids of the listed events. */
  readonly ids: readonly string[];
  /** True if the report was retracted. A retracted report still counts for the maximum number of open reports. */
  isRetracted: boolean;
}

/** Number of reports that each insertion checks for expiry. The check starts with the oldest report. */
const SWEEP_STEPS = 8;

/** Open reports by session id or event id. Ids are unique only within a project. */
class ReportsByKey {
  readonly #max: number;
  readonly #reports = new Map<string, OpenReport>();
  readonly #byProject = new Map<string, MultiMap<OpenReport>>();
  #keys = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get keys(): number {
    return this.#keys;
  }

  hasReports(projectId: string): boolean {
    return this.#byProject.has(projectId);
  }

  /** Adds a bug report. Does nothing if `ids` is empty, or if the report is closed or was already added. */
  open(report: WindowedReport, ids: readonly string[], nowMs: number): void {
    const { projectId, reportId, sessionId, receivedAt } = report;
    const name = nameOf(projectId, reportId);
    const closesAt = closesAtMs(report);
    const existing = this.#reports.get(name);
    if (existing !== undefined) existing.isRetracted = false;
    if (ids.length === 0 || closesAt < nowMs || existing !== undefined) return;
    const opened = {
      projectId,
      reportId,
      sessionId,
      receivedAt,
      window: windowOf(report),
      closesAt,
      ids,
      isRetracted: false,
    };
    this.#reports.set(name, opened);
    this.#keys += ids.length;
    const byId = this.#byProject.get(projectId) ?? new MultiMap();
    this.#byProject.set(projectId, byId);
    for (const id of ids) byId.add(id, opened);
    this.#sweep(nowMs);
  }

  retract(name: string): void {
    const opened = this.#reports.get(name);
    if (opened !== undefined) opened.isRetracted = true;
  }

  close(name: string): void {
    const opened = this.#reports.get(name);
    if (opened === undefined) return;
    this.#reports.delete(name);
    this.#keys -= opened.ids.length;
    const byId = this.#byProject.get(opened.projectId);
    for (const id of opened.ids) byId?.delete(id, opened);
    if (byId?.size === 0) this.#byProject.delete(opened.projectId);
  }

  openAt(projectId: string, id: string | null, nowMs: number): readonly OpenReport[] {
    if (id === null || this.#keys === 0) return NONE;
    const found: OpenReport[] = [];
    for (const opened of this.#byProject.get(projectId)?.get(id) ?? NONE) {
      if (opened.closesAt < nowMs) this.close(nameOf(projectId, opened.reportId));
      else found.push(opened);
    }
    return found;
  }

  #sweep(nowMs: number): void {
    let steps = SWEEP_STEPS;
    for (const [name, { closesAt }] of this.#reports) {
      const isOverLimit = this.#keys > this.#max;
      if (!isOverLimit && steps-- === 0) return;
      if (isOverLimit || closesAt < nowMs) this.close(name);
    }
  }
}

function nameOf(projectId: string, id: string): string {
  return `${projectId}/${id}`;
}

const NONE: readonly never[] = [];
