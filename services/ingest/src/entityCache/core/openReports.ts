/**
 * What the latest bug reports say of an event's links, before the linker has made them or taken them back: it will make
 * and take back exactly these. Pure; time comes in as a value.
 */
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

/** A stored event; one of another project is never asked for. */
export type LinkableEvent = Pick<AcceptedEvent, 'id' | 'sessionId' | 'occurredAt'>;

/** The fields that the window of a report is made of. */
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

/** What a report asks for: the events of its session, and those that it names. */
export type RequestedLinks = Pick<ReportLink, 'projectId' | 'sessionId' | 'eventIds'>;
type FilingReport = RequestedLinks & Pick<ReportLink, 'reportId' | 'maxSessionLinks'>;

/**
 * Beyond it the oldest go: their links are made all the same, and reads show them from then on; only the answer to a
 * new event lacks them.
 */
export const MAX_OPEN_WINDOWS = 100_000;
/** Ids of events, some 260 bytes each. Beyond it the oldest reports go: reads then show their links once they are made. */
export const MAX_NAMED_IDS = 100_000;
/** Beyond it the oldest go, whose links were taken back long ago. */
export const MAX_RETRACTED = 100_000;
/**
 * Open reports that have a session's events, and those that name an event. Each link has the event's payload: without a bound, an
 * event of 250 KB in 2,000 reports is half a gigabyte of the log, and an answer to 500 events 200 MB.
 */
export const MAX_OPEN_REPORTS_PER_KEY = 50;

export class OpenReports {
  readonly #bySession: ReportsByKey;
  /** The events that a report names itself are linked to it for certain. */
  readonly #byEvent: ReportsByKey;
  /** Those that are being filed, by what they ask for; some are read back already. */
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

  /** How many are held: reports with a session, and ids of events, one for each report that names it. */
  get counts(): { windows: number; namedIds: number } {
    return { windows: this.#bySession.keys, namedIds: this.#byEvent.keys };
  }

  open(report: ReportLink, nowMs: number): void {
    // A retraction that came before its report retracts nothing.
    this.#retracted.delete(nameOf(report.projectId, report.reportId));
    this.openWindow(report, nowMs);
    this.#byEvent.open(report, [...namedEventsOf(report).keys()], nowMs);
  }

  /** Opens a report of which only the window is known. */
  openWindow(report: WindowedReport, nowMs: number): void {
    const { sessionId, maxSessionLinks } = report;
    this.#bySession.open(report, sessionId === null || maxSessionLinks === 0 ? [] : [sessionId], nowMs);
  }

  /** What of it is not taken by as many other reports as may have it. */
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

  /** It has what it asks for while it is being filed, since many may be at once. @returns what ends that. */
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

  /** Whether any event of the session may be in one. */
  hasOpen(projectId: string, sessionId: string, nowMs: number): boolean {
    return this.#bySession.openAt(projectId, sessionId, nowMs).some(isNotRetracted);
  }

  /** @param linked the reports that the event is linked to as far as ClickHouse has it. @returns sorted, each once. */
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
    // The linker has let go of an erased one: it makes no link of it any more.
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
  /** It has room all the same until it closes: to file and retract would have each event linked without end. */
  isRetracted: boolean;
}

function isNotRetracted({ isRetracted }: OpenReport): boolean {
  return !isRetracted;
}

/** How many of the oldest one insertion looks at, to let go of what has closed. */
const SWEEP_STEPS = 8;

/** Reports by ids of what they have in common, each until it closes; an id is unique inside a project only. */
class ReportsByKey {
  readonly #max: number;
  readonly #reports = new Map<string, OpenReport>();
  readonly #byKey = new MultiMap<OpenReport>();
  #keys = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** How many keys all reports have together. */
  get keys(): number {
    return this.#keys;
  }

  /** A report without ids, one that has closed and one that is here already change nothing. */
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

  /** Most reports are open for as long as each other, so the oldest are the first to close. */
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
