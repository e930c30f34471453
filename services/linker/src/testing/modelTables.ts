/** Simulates ClickHouse in tests. Returns the projected rows of a simulated log, and the answers of lookups. */
import { isInWindow } from '@questlog/schemas/reportWindow';
import type { EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import type { LinkedEvent, StoredEvent } from '@questlog/schemas/topics/linkedEvents';
import { isAtHome, type ReportLink } from '@questlog/schemas/topics/reportLinks';
import { keyOf } from '../core/decision.ts';
import {
  type Answer,
  type FoundEvent,
  type Job,
  type LinkQuery,
  linkQueryOf,
  type ProjectedReport,
} from '../core/jobs.ts';
import type { LinkerState } from '../core/linkerState.ts';

export const MODEL_LOG = 'a log';

/** Records of each topic by partition. A lookup sees only the projected records of a topic. */
export interface ModelTopics {
  readonly events: EventsAccepted[][];
  readonly reports: ReportLink[][];
  readonly links: LinkedEvent[][];
}
export type Positions = { [topic in keyof ModelTopics]: number[] };

interface EventRow {
  readonly event: StoredEvent;
  readonly tenantId: string;
  readonly projectId: string;
  readonly partition: number;
  readonly offset: number;
}

export class ModelTables {
  readonly reports = new Map<string, ProjectedReport>();
  readonly #events: EventRow[] = [];
  readonly #links = new Map<string, { link: LinkedEvent; partition: number }>();
  readonly #lanes: ReadonlyMap<string, number>;

  /** @param lanes the lanes of the registered sessions, by `project/session` */
  constructor(topics: ModelTopics, projected: Positions, lanes: ReadonlyMap<string, number>) {
    this.#lanes = lanes;
    const partitions = topics.events.length;
    each(topics.reports, projected.reports, (record, partition, offset) => {
      if (isAtHome(record, partition, partitions) && !record.isForwarded) this.#project(record, offset);
    });
    const seen = new Set<string>();
    each(topics.events, projected.events, (message, partition, offset) => {
      if (seen.has(`${partition}/${message.appendId}`)) return;
      seen.add(`${partition}/${message.appendId}`);
      const { tenantId, projectId, receivedAt } = message;
      for (const event of message.events) {
        this.#events.push({ event: { ...event, receivedAt }, tenantId, projectId, partition, offset });
      }
    });
    each(topics.links, projected.links, (link, partition) => {
      const known = this.#links.get(link.linkId)?.link.version ?? -1;
      if (link.version > known) this.#links.set(link.linkId, { link, partition });
    });
  }

  /**
   * Returns the answer of a lookup.
   * @param below the offset below which the lookup sees the partition's own events
   */
  answer(state: LinkerState, job: Job, below: number, limit: number): Answer {
    switch (job.kind) {
      case 'check':
        return { ...job, projected: this.reports };
      case 'unlink':
        return {
          ...job,
          projected: this.reports,
          ...this.#linked(state, [...job.retractions.keys()], limit),
        };
      case 'ask':
      case 'close': {
        const queries = [...job.reports].map(([key, { record, phase }]) =>
          linkQueryOf(state, key, phase === 'spilled' ? (this.reports.get(key)?.record ?? record) : record),
        );
        return { ...job, ...this.#unlinked(state, queries, below, limit) };
      }
      case 'late': {
        const keys = [...job.sessions.keys()];
        const queries = [...this.reports]
          .filter(([, { record, isRetracted }]) => {
            return !isRetracted && keys.includes(`${record.projectId}/${record.sessionId}`);
          })
          .map(([key, { record }]) => ({
            ...linkQueryOf(state, key, record),
            events: new Map(),
          }));
        return { ...job, ...this.#unlinked(state, queries, below, limit) };
      }
    }
  }

  isLinked(linkId: string): boolean {
    return this.#links.has(linkId);
  }

  #project(record: ReportLink, offset: number): void {
    const known = this.reports.get(keyOf(record));
    if (record.kind === 'filed' && known === undefined) {
      this.reports.set(keyOf(record), {
        record: this.#withLane(record),
        logId: MODEL_LOG,
        offset,
        isRetracted: false,
      });
    }
    if (record.kind === 'retracted' && known !== undefined) {
      this.reports.set(keyOf(record), { ...known, isRetracted: true });
    }
  }

  #withLane(record: ReportLink): ReportLink {
    const lane = this.#lanes.get(`${record.projectId}/${record.sessionId}`) ?? null;
    return { ...record, sessionLane: record.sessionLane ?? lane };
  }

  #unlinked(state: LinkerState, queries: readonly LinkQuery[], below: number, limit: number) {
    const found: FoundEvent[] = [];
    const missing = new Map<string, string[]>();
    const linkCounts = new Map<string, number>();
    for (const { key, record, events, session } of queries) {
      linkCounts.set(key, this.#sessionLinksOf(key));
      const lost = new Set(events.keys());
      for (const row of this.#events) {
        const { event, tenantId, projectId, partition, offset } = row;
        if (tenantId !== record.tenantId || projectId !== record.projectId) continue;
        if (partition === state.partition && offset >= below) continue;
        lost.delete(event.id);
        const named = events.get(event.id);
        const isOfSession =
          session !== null &&
          event.sessionId === session.id &&
          isInWindow(event.occurredAt, session) &&
          !session.excludedEventIds.includes(event.id);
        const source = named ?? (isOfSession ? 'session' : undefined);
        if (source === undefined || this.#isLinked(key, event.id)) continue;
        if (!found.some((one) => one.key === key && one.event.id === event.id))
          found.push({ key, record, event, source });
      }
      missing.set(key, [...lost]);
    }
    found.sort((a, b) => this.#orderOf(a.event.id) - this.#orderOf(b.event.id));
    const made = new Map(linkCounts);
    const left = found.filter(({ key, record, source }) => {
      if (source !== 'session') return true;
      made.set(key, (made.get(key) ?? 0) + 1);
      return (made.get(key) ?? 0) <= record.maxSessionLinks;
    });
    return {
      found: left.slice(0, limit),
      isComplete: left.length <= limit,
      missing,
      linkCounts,
      below,
    };
  }

  #sessionLinksOf(key: string): number {
    return [...this.#links.values()].filter(({ link }) => keyOf(link) === key && link.source === 'session')
      .length;
  }

  #orderOf(eventId: string): number {
    return this.#events.findIndex(({ event }) => event.id === eventId);
  }

  #linked(state: LinkerState, keys: readonly string[], limit: number) {
    const found = [...this.#links.values()]
      .filter(
        ({ link, partition }) =>
          link.kind === 'linked' && partition === state.partition && keys.includes(keyOf(link)),
      )
      .map(({ link }) => ({
        key: keyOf(link),
        record: this.reports.get(keyOf(link))?.record,
        event: link.event,
        source: link.source,
      }))
      .flatMap(({ record, ...rest }) => (record === undefined ? [] : [{ ...rest, record }]));
    return { found: found.slice(0, limit), isComplete: found.length <= limit };
  }

  #isLinked(key: string, eventId: string): boolean {
    for (const { link } of this.#links.values()) {
      if (keyOf(link) === key && link.event.id === eventId) return true;
    }
    return false;
  }
}

function each<T>(
  logs: readonly (readonly T[])[],
  ends: readonly number[],
  visit: (record: T, partition: number, offset: number) => void,
): void {
  for (const [partition, log] of logs.entries()) {
    for (const [offset, record] of log.slice(0, ends[partition]).entries()) visit(record, partition, offset);
  }
}
