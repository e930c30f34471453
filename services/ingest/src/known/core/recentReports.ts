/**
 * What the latest bug reports say of an event's links, before the linker has made them or taken them back: it will make
 * and take back exactly these. Pure; time comes in as a value.
 */
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { NamedEvents } from './namedEvents.ts';
import { OpenWindows, type WindowedReport } from './openWindows.ts';

/** A stored event; one of another project is never asked for. */
export interface AskedEvent {
  readonly id: string;
  readonly sessionId: string | null;
  /** Microseconds since the epoch. */
  readonly occurredAt: bigint;
}

/** Beyond it the oldest go, whose links were taken back long ago. */
export const MAX_RETRACTED = 100_000;

export class RecentReports {
  readonly #windows = new OpenWindows();
  readonly #named = new NamedEvents();
  readonly #retracted = new Set<string>();
  readonly #maxRetracted: number;

  constructor(maxRetracted = MAX_RETRACTED) {
    this.#maxRetracted = maxRetracted;
  }

  open(report: ReportLink, nowMs: number): void {
    // A retraction that came before its report retracts nothing.
    this.#retracted.delete(`${report.projectId}/${report.reportId}`);
    this.#windows.open(report, nowMs);
    this.#named.open(report, nowMs);
  }

  /** Of a report of which no more is known than its window. */
  openWindow(report: WindowedReport, nowMs: number): void {
    this.#windows.open(report, nowMs);
  }

  retract(projectId: string, reportId: string): void {
    this.#windows.close(projectId, reportId);
    this.#named.close(projectId, reportId);
    this.#retracted.add(`${projectId}/${reportId}`);
    if (this.#retracted.size <= this.#maxRetracted) return;
    for (const oldest of this.#retracted) {
      this.#retracted.delete(oldest);
      return;
    }
  }

  /** @param linked the reports that the event is linked to as far as ClickHouse has it. @returns sorted, each once. */
  of(
    projectId: string,
    { id, sessionId, occurredAt }: AskedEvent,
    linked: readonly string[],
    nowMs: number,
  ): readonly string[] {
    const open = this.#windows.of(projectId, sessionId, occurredAt, nowMs);
    const named = this.#named.of(projectId, id, nowMs);
    if (linked.length === 0 && named.length === 0) return open;
    const all = new Set([...linked, ...open, ...named]);
    return [...all].filter((reportId) => !this.#retracted.has(`${projectId}/${reportId}`)).sort();
  }
}
