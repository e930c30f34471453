/** Predicts the links of an event to recent bug reports before the linker creates or retracts the links. Pure. */
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

import { type IsErased, NOTHING_ERASED } from './isErased.ts';

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

/** Links that a report requests: the events of its session, and the events that it names. */
export type RequestedLinks = Pick<ReportLink, 'projectId' | 'sessionId' | 'eventIds'>;
type FilingReport = RequestedLinks & Pick<ReportLink, 'reportId' | 'maxSessionLinks'>;

/**
 * Maximum open windows in memory. The linker still links an evicted report. Only the response to a new event omits the link.
 */
export const MAX_OPEN_WINDOWS = 100_000;
/** Maximum event ids that open reports name, about 260 bytes each. The linker still links evicted reports. */
export const MAX_NAMED_IDS = 100_000;
/** Maximum retracted reports in memory. The linker has already retracted the links of evicted reports. */
export const MAX_RETRACTED = 100_000;
/**
 * Maximum open reports per session, and per event that reports name. Each link stores the payload, so 2,000 links of 250 KB are
 * 500 MB.
 */
export const MAX_OPEN_REPORTS_PER_KEY = 50;

export class OpenReports {
  readonly #bySession: ReportsByKey;
  readonly #byEvent: ReportsByKey;
  /** Reports that are being filed. Some of these reports may already have been read back from the log. */
  readonly #filing = new MultiMap<FilingReport>();
  readonly #retracted = new Set<string>();
  readonly #maxRetracted: number;
  readonly #isErased: IsErased;

  constructor(
    { windows = MAX_OPEN_WINDOWS, namedIds = MAX_NAMED_IDS, retracted = MAX_RETRACTED } = {},
    isErased = NOTHING_ERASED,
  ) {
    this.#isErased = isErased;
    this.#bySession = new ReportsByKey(windows);
    this.#byEvent = new ReportsByKey(namedIds);
    this.#maxRetracted = retracted;
  }

  get counts(): { windows: number; namedIds: number } {
    return { windows: this.#bySession.keys, namedIds: this.#byEvent.keys };
  }

  open(report: ReportLink, nowMs: number): void {
    // A retraction has no effect if it precedes its report in the log.
    this.#retracted.delete(nameOf(report.projectId, report.reportId));
    this.openWindow(report, nowMs);
    this.#byEvent.open(report, [...namedEventsOf(report).keys()], nowMs);
  }

  /** Opens the window of a report, without the events that the report names. */
  openWindow(report: WindowedReport, nowMs: number): void {
    const { sessionId, maxSessionLinks } = report;
    this.#bySession.open(report, sessionId === null || maxSessionLinks === 0 ? [] : [sessionId], nowMs);
  }

  /** Returns which of the requested links a new report may have within `MAX_OPEN_REPORTS_PER_KEY`. */
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

  /** Reserves capacity while a report is filed. Returns a function that ends the reservation. */
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
    this.#retracted.add(name);
    const [oldest] = this.#retracted;
    if (this.#retracted.size > this.#maxRetracted && oldest !== undefined) this.#retracted.delete(oldest);
  }

  hasOpen(projectId: string, sessionId: string, nowMs: number): boolean {
    return this.#bySession.openAt(projectId, sessionId, nowMs).some(isNotRetracted);
  }

  /**
   * Returns the ids of an event's reports, sorted and without duplicates. @param linked reports to which ClickHouse has links
   */
  reportsOf(
    projectId: string,
    { id, sessionId, occurredAt }: LinkableEvent,
    linked: readonly string[],
    nowMs: number,
  ): readonly string[] {
    const open = this.#bySession.openAt(projectId, sessionId, nowMs);
    const named = this.#byEvent.openAt(projectId, id, nowMs);
    if (linked.length === 0 && open.length === 0 && named.length === 0) return NONE;
    const inWindow = open.filter(({ window }) => isInWindow(occurredAt, window));
    // The linker does not link an erased report.
    const matching = [...inWindow, ...named].filter(
      (report) => isNotRetracted(report) && !this.#isErased({ projectId, ...report }),
    );
    const all = new Set([...linked, ...matching.map(({ reportId }) => reportId)]);
    return [...all].filter((reportId) => !this.#retracted.has(nameOf(projectId, reportId))).sort();
  }
}

export interface ReportCapacity {
  readonly ofSession: boolean;
  readonly eventIds: readonly string[];
}

interface OpenReport {
  readonly reportId: string;
  readonly sessionId: string | null;
  readonly receivedAt: number;
  readonly window: ReportWindow;
  readonly closesAt: number;
  readonly keys: readonly string[];
  /**
   * True if the report was retracted. A retracted report uses capacity until it closes, so that retractions do not allow
   * unlimited links.
   */
  isRetracted: boolean;
}

function isNotRetracted({ isRetracted }: OpenReport): boolean {
  return !isRetracted;
}

/** Number of the oldest reports that an insertion checks for expiry. */
const SWEEP_STEPS = 8;

/** Open reports by session id or event id. An id is unique only within its project. */
class ReportsByKey {
  readonly #max: number;
  readonly #reports = new Map<string, OpenReport>();
  readonly #byKey = new MultiMap<OpenReport>();
  #keys = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** Number of keys of all reports. */
  get keys(): number {
    return this.#keys;
  }

  /** Adds a report. Ignores a report without ids, a closed report, and a report that is already open. */
  open(report: WindowedReport, ids: readonly string[], nowMs: number): void {
    const { projectId, reportId, sessionId, receivedAt } = report;
    const name = nameOf(projectId, reportId);
    const closesAt = closesAtMs(report);
    const existing = this.#reports.get(name);
    if (existing !== undefined) existing.isRetracted = false;
    if (ids.length === 0 || closesAt < nowMs || existing !== undefined) return;
    const keys = ids.map((id) => nameOf(projectId, id));
    const opened = {
      reportId,
      sessionId,
      receivedAt,
      window: windowOf(report),
      closesAt,
      keys,
      isRetracted: false,
    };
    this.#reports.set(name, opened);
    this.#keys += keys.length;
    for (const key of keys) this.#byKey.add(key, opened);
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
    this.#keys -= opened.keys.length;
    for (const key of opened.keys) this.#byKey.delete(key, opened);
  }

  openAt(projectId: string, id: string | null, nowMs: number): readonly OpenReport[] {
    if (id === null || this.#keys === 0) return NONE;
    const found: OpenReport[] = [];
    for (const opened of this.#byKey.get(nameOf(projectId, id))) {
      if (opened.closesAt < nowMs) this.close(nameOf(projectId, opened.reportId));
      else found.push(opened);
    }
    return found;
  }

  /**
   * Removes closed reports, and reports above the limit. Starts with the oldest reports, because most reports are open equally
   * long.
   */
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
