/**
 * The bug reports whose window is open, by session: what the answer to a new event tells of. Pure; time comes in as a
 * value.
 */
import { closesAtMs, isInWindow, type ReportWindow, windowOf } from '@questlog/schemas/reportWindow';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';

/** What the window of a report is made of. */
export type WindowedReport = Pick<
  ReportLink,
  'projectId' | 'reportId' | 'sessionId' | 'occurredAt' | 'receivedAt' | 'windowBeforeMs' | 'windowAfterMs'
>;

interface OpenReport extends ReportWindow {
  readonly reportId: string;
  readonly session: string;
  readonly closesAt: number;
}

/**
 * Beyond it the oldest go: their links are made all the same, and reads show them from then on; only the answer to a
 * new event lacks them.
 */
export const MAX_OPEN_WINDOWS = 100_000;
/** How many of the oldest one insertion looks at, to let go of what has closed. */
const SWEEP_STEPS = 8;

export class OpenWindows {
  readonly #max: number;
  readonly #reports = new Map<string, OpenReport>();
  readonly #bySession = new Map<string, Set<OpenReport>>();

  constructor(max = MAX_OPEN_WINDOWS) {
    this.#max = max;
  }

  get size(): number {
    return this.#reports.size;
  }

  /** A report without a session, one that has closed and one that is here already change nothing. */
  open(report: WindowedReport, nowMs: number): void {
    const { projectId, reportId, sessionId } = report;
    const name = `${projectId}/${reportId}`;
    const closesAt = closesAtMs(report);
    if (sessionId === null || closesAt < nowMs || this.#reports.has(name)) return;
    const session = `${projectId}/${sessionId}`;
    const opened = { ...windowOf(report), reportId, session, closesAt };
    this.#reports.set(name, opened);
    const ofSession = this.#bySession.get(session);
    if (ofSession === undefined) this.#bySession.set(session, new Set([opened]));
    else ofSession.add(opened);
    this.#sweep(nowMs);
  }

  close(projectId: string, reportId: string): void {
    const name = `${projectId}/${reportId}`;
    const opened = this.#reports.get(name);
    if (opened === undefined) return;
    this.#reports.delete(name);
    const ofSession = this.#bySession.get(opened.session);
    ofSession?.delete(opened);
    if (ofSession?.size === 0) this.#bySession.delete(opened.session);
  }

  /** The reports of the session that an event of this time belongs to. */
  of(projectId: string, sessionId: string | null, occurredAt: bigint, nowMs: number): readonly string[] {
    if (sessionId === null || this.#reports.size === 0) return NONE;
    const ofSession = this.#bySession.get(`${projectId}/${sessionId}`);
    if (ofSession === undefined) return NONE;
    const found: string[] = [];
    for (const opened of ofSession) {
      if (opened.closesAt < nowMs) this.close(projectId, opened.reportId);
      else if (isInWindow(occurredAt, opened)) found.push(opened.reportId);
    }
    return found.sort();
  }

  /** Most windows are as long as each other, so the oldest are the first to close. */
  #sweep(nowMs: number): void {
    let steps = SWEEP_STEPS;
    for (const [name, opened] of this.#reports) {
      if (steps-- === 0) return;
      const isOver = opened.closesAt < nowMs || this.#reports.size > this.#max;
      if (isOver) this.close(name.slice(0, name.indexOf('/')), opened.reportId);
    }
  }
}

const NONE: readonly string[] = [];
