/** Finds a partition's open reports by session id or by event id. */
import { MultiMap } from '@questlog/schemas/multiMap';
import { type ReportWindow, windowOf } from '@questlog/schemas/reportWindow';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { ownedEventsOf, ownsSession } from './ownership.ts';

export interface OpenReport {
  readonly key: string;
  readonly record: ReportLink;
  readonly window: ReportWindow;
}

export class OpenReports {
  readonly #partition: number;
  readonly #partitions: number;
  readonly #reports = new Map<string, OpenReport>();
  readonly #bySession = new MultiMap<OpenReport>();
  readonly #byEvent = new MultiMap<OpenReport>();
  #eventIds = 0;

  constructor(partition: number, partitions: number) {
    this.#partition = partition;
    this.#partitions = partitions;
  }

  get reports(): number {
    return this.#reports.size;
  }

  get eventIds(): number {
    return this.#eventIds;
  }

  reportsNaming(eventId: string): Iterable<OpenReport> {
    return this.#byEvent.get(eventId);
  }

  reportsOfSession(sessionId: string): Iterable<OpenReport> {
    return this.#bySession.get(sessionId);
  }

  add(key: string, record: ReportLink): void {
    const report = { key, record, window: windowOf(record) };
    this.#reports.set(key, report);
    const { sessionId, maxSessionLinks } = record;
    if (sessionId !== null && maxSessionLinks > 0 && ownsSession(record, this.#partition, this.#partitions)) {
      this.#bySession.add(sessionId, report);
    }
    for (const id of this.#eventsOf(record)) {
      this.#byEvent.add(id, report);
      this.#eventIds++;
    }
  }

  remove(key: string): void {
    const report = this.#reports.get(key);
    if (report === undefined) return;
    this.#reports.delete(key);
    this.#bySession.delete(report.record.sessionId ?? '', report);
    for (const id of this.#eventsOf(report.record)) {
      this.#byEvent.delete(id, report);
      this.#eventIds--;
    }
  }

  #eventsOf(record: ReportLink): Iterable<string> {
    return ownedEventsOf(record, this.#partition, this.#partitions).keys();
  }
}
