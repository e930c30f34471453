/** The reports that a partition matches as events come, by the events that they name and by their sessions. Pure. */
import { type ReportWindow, windowOf } from '@questlog/schemas/reportWindow';
import type { LinkSource } from '@questlog/schemas/topics/linkedEvents';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { ownedEventsOf, ownsSession } from './ownership.ts';

export interface OpenReport {
  readonly key: string;
  readonly record: ReportLink;
  readonly window: ReportWindow;
}

export interface NamedBy {
  readonly report: OpenReport;
  readonly source: Exclude<LinkSource, 'session'>;
}

export class OpenReports {
  readonly #partition: number;
  readonly #partitions: number;
  readonly #bySession = new Map<string, Map<string, OpenReport>>();
  readonly #byEvent = new Map<string, NamedBy[]>();
  #reports = 0;
  #eventIds = 0;

  constructor(partition: number, partitions: number) {
    this.#partition = partition;
    this.#partitions = partitions;
  }

  get reports(): number {
    return this.#reports;
  }

  /** That these reports name and leave to this partition, together. */
  get eventIds(): number {
    return this.#eventIds;
  }

  /** Those that name the event and leave it to this partition. */
  naming(eventId: string): readonly NamedBy[] {
    return this.#byEvent.get(eventId) ?? NONE;
  }

  /** Session ids are unique inside a project only. */
  ofSession(sessionId: string): Iterable<OpenReport> {
    return this.#bySession.get(sessionId)?.values() ?? NONE;
  }

  add(key: string, record: ReportLink): void {
    const report = { key, record, window: windowOf(record) };
    this.#reports++;
    if (record.sessionId !== null && ownsSession(record, this.#partition, this.#partitions)) {
      const ofSession = this.#bySession.get(record.sessionId) ?? new Map<string, OpenReport>();
      ofSession.set(key, report);
      this.#bySession.set(record.sessionId, ofSession);
    }
    for (const [id, source] of ownedEventsOf(record, this.#partition, this.#partitions)) {
      const naming = this.#byEvent.get(id);
      if (naming === undefined) this.#byEvent.set(id, [{ report, source }]);
      else naming.push({ report, source });
      this.#eventIds++;
    }
  }

  remove(key: string, record: ReportLink): void {
    this.#reports--;
    const ofSession = this.#bySession.get(record.sessionId ?? '');
    if (ofSession?.delete(key) === true && ofSession.size === 0)
      this.#bySession.delete(record.sessionId ?? '');
    for (const id of ownedEventsOf(record, this.#partition, this.#partitions).keys()) {
      const left = this.naming(id).filter(({ report }) => report.key !== key);
      if (left.length === 0) this.#byEvent.delete(id);
      else this.#byEvent.set(id, left);
      this.#eventIds--;
    }
  }
}

const NONE: readonly never[] = [];
