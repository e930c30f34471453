/**
 * The events that open bug reports name themselves, by id: their links are certain before anybody has made them. Pure;
 * time comes in as a value.
 */
import { closesAtMs, namedEventsOf } from '@questlog/schemas/reportWindow';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';

interface NamingReport {
  readonly projectId: string;
  readonly reportId: string;
  readonly eventIds: readonly string[];
  readonly closesAt: number;
}

/** Ids of events, some 300 bytes each. Beyond it the oldest reports go: reads then show their links once they are made. */
export const MAX_NAMED_IDS = 100_000;
/** How many of the oldest one insertion looks at, to let go of what has closed. */
const SWEEP_STEPS = 8;

export class NamedEvents {
  readonly #max: number;
  readonly #reports = new Map<string, NamingReport>();
  readonly #byProject = new Map<string, Map<string, Set<NamingReport>>>();
  #weight = 0;

  constructor(max = MAX_NAMED_IDS) {
    this.#max = max;
  }

  /** Ids that are held, one for each report that names it. */
  get weight(): number {
    return this.#weight;
  }

  /** A report that names nothing, one that has closed and one that is here already change nothing. */
  open(report: ReportLink, nowMs: number): void {
    const { projectId, reportId } = report;
    const name = `${projectId}/${reportId}`;
    const eventIds = [...namedEventsOf(report).keys()];
    const closesAt = closesAtMs(report);
    if (eventIds.length === 0 || closesAt < nowMs || this.#reports.has(name)) return;
    const opened = { projectId, reportId, eventIds, closesAt };
    this.#reports.set(name, opened);
    this.#weight += eventIds.length;
    const ofProject = this.#byProject.get(projectId) ?? new Map<string, Set<NamingReport>>();
    this.#byProject.set(projectId, ofProject);
    for (const id of eventIds) {
      const naming = ofProject.get(id);
      if (naming === undefined) ofProject.set(id, new Set([opened]));
      else naming.add(opened);
    }
    this.#sweep(nowMs);
  }

  close(projectId: string, reportId: string): void {
    const name = `${projectId}/${reportId}`;
    const opened = this.#reports.get(name);
    const ofProject = this.#byProject.get(projectId);
    if (opened === undefined || ofProject === undefined) return;
    this.#reports.delete(name);
    this.#weight -= opened.eventIds.length;
    for (const id of opened.eventIds) {
      const naming = ofProject.get(id);
      naming?.delete(opened);
      if (naming?.size === 0) ofProject.delete(id);
    }
    if (ofProject.size === 0) this.#byProject.delete(projectId);
  }

  /** The open reports of the project that name the event, in no order. */
  of(projectId: string, eventId: string, nowMs: number): readonly string[] {
    const naming = this.#byProject.get(projectId)?.get(eventId);
    if (naming === undefined) return NONE;
    return [...naming].filter(({ closesAt }) => closesAt >= nowMs).map(({ reportId }) => reportId);
  }

  /** Most reports are open for as long as each other, so the oldest are the first to close. */
  #sweep(nowMs: number): void {
    let steps = SWEEP_STEPS;
    for (const { projectId, reportId, closesAt } of this.#reports.values()) {
      const isTooMuch = this.#weight > this.#max;
      if (!isTooMuch && steps-- === 0) return;
      if (isTooMuch || closesAt < nowMs) this.close(projectId, reportId);
    }
  }
}

const NONE: readonly string[] = [];
