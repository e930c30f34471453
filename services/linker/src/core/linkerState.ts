/**
 * State of the linker for one partition: unfinished reports, pending lookups, and recent append ids. The changelog topic
 * contains the state for the next owner of the partition.
 */

import type { LinkedEvent } from '@questlog/schemas/topics/linkedEvents';
import type {
  LateSession,
  LinkerEntry,
  LinkerPosition,
  PendingRetraction,
  SessionLinkCount,
  TrackedReport,
} from '@questlog/schemas/topics/linkerState';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { type Change, type DeferredLink, keyOf, LINK_OVERHEAD_BYTES } from './decision.ts';
import { OpenReports } from './openReports.ts';
import { RecentAppends } from './recentAppends.ts';
import { SessionFilter, SessionsWithReports } from './sessionFilter.ts';

export const LINKER_BOUNDS = {
  /** Maximum number of reports that are matched with incoming events. Events of further reports are found in ClickHouse. */
  openReports: 50_000,
  openEventIds: 500_000,
  /** Minimum number of append ids that an eviction leaves in the cache. All Questlog versions must use the same number. */
  appends: 50_800,
  /** Maximum bytes of links that wait for the end of a lookup. If a link does not fit, the linker repeats the lookup. */
  deferredLinkBytes: 16 * 1024 * 1024,
  /** Maximum number of sessions in the Bloom filter. With more sessions, every late event causes a ClickHouse lookup. */
  sessionsWithReports: 800_000,
};
export type LinkerBounds = Readonly<typeof LINKER_BOUNDS>;

const EMPTY_ENTRY: LinkerEntry = {
  ...{ report: null, retraction: null, late: null },
  ...{ appends: null, position: null, sessionLinks: null },
};

export function positionEntry(position: LinkerPosition): LinkerEntry {
  return { ...EMPTY_ENTRY, position };
}

export class LinkerState {
  readonly partition: number;
  readonly partitions: number;
  readonly reports = new Map<string, TrackedReport>();
  readonly open: OpenReports;
  readonly retractions = new Map<string, PendingRetraction>();
  readonly late = new Map<string, LateSession>();
  readonly deferredLinks = new Map<string, DeferredLink[]>();
  readonly sessionLinks = new Map<string, number>();
  /** Sessions that have open or closed reports. They are read from ClickHouse, because the changelog omits closed reports. */
  readonly sessionsWithReports: SessionsWithReports;
  readonly appends: RecentAppends;
  /** True if the log has lost events since the state was restored. */
  wasTruncated = false;
  readonly waiting = new DueTimes();
  readonly asking = new DueTimes();
  readonly closing = new DueTimes();
  readonly #bounds: LinkerBounds;
  readonly #changed = new Set<string>();
  #trackedEventIds = 0;
  #deferredBytes = 0;

  constructor(
    partition: number,
    partitions: number,
    bounds: LinkerBounds,
    sessions = new SessionFilter(bounds.sessionsWithReports),
  ) {
    this.partition = partition;
    this.partitions = partitions;
    this.#bounds = bounds;
    this.open = new OpenReports(partition, partitions);
    this.sessionsWithReports = new SessionsWithReports(sessions);
    this.appends = new RecentAppends(bounds.appends);
  }

  evolve(changes: readonly Change[]): void {
    for (const change of changes) {
      if (change.entry === 'append') {
        this.appends.add(change.id, change.arrivedAtMs);
        continue;
      }
      if (change.entry === 'held') {
        this.#deferLink(change.key, change.link);
        continue;
      }
      if (change.entry === 'sessionLinks') {
        this.#setLinkCount(change.key, Math.max(change.atLeast, this.sessionLinks.get(change.key) ?? 0));
        continue;
      }
      this.#changed.add(`${change.entry}/${change.key}`);
      if (change.entry === 'report') this.#track(change.key, change.value);
      else if (change.entry === 'retraction') setOrDelete(this.retractions, change.key, change.value);
      else setOrDelete(this.late, change.key, change.value);
    }
  }

  countLink(link: LinkedEvent): void {
    const key = keyOf(link);
    if (link.kind === 'linked' && link.source === 'session') {
      this.#setLinkCount(key, (this.sessionLinks.get(key) ?? 0) + 1);
    }
  }

  hasLinksLeft(key: string, { maxSessionLinks }: ReportLink): boolean {
    return (this.sessionLinks.get(key) ?? 0) < maxSessionLinks;
  }

  drain(): { key: string; entry: LinkerEntry | null }[] {
    const entries = [...this.#changed].map((key) => ({ key, entry: this.#entryOf(key) }));
    this.#changed.clear();
    for (const [name, appends] of this.appends.drain()) {
      entries.push({ key: `append/${name}`, entry: appends && { ...EMPTY_ENTRY, appends } });
    }
    return entries;
  }

  /** Restores a changelog entry. Entries must be restored in the order in which they were written. */
  restore(key: string, entry: LinkerEntry): void {
    const slash = key.indexOf('/');
    const name = key.slice(slash + 1);
    if (entry.report !== null) this.#track(name, entry.report);
    if (entry.retraction !== null) this.retractions.set(name, entry.retraction);
    if (entry.late !== null) this.late.set(name, entry.late);
    if (entry.sessionLinks != null) this.sessionLinks.set(name, entry.sessionLinks.count);
    if (entry.appends !== null) this.appends.restore(name, entry.appends);
  }

  get trackedEventIds(): number {
    return this.#trackedEventIds;
  }

  get canDeferLinks(): boolean {
    return this.#deferredBytes < this.#bounds.deferredLinkBytes;
  }

  get canOpenReport(): boolean {
    return this.open.reports < this.#bounds.openReports && this.open.eventIds < this.#bounds.openEventIds;
  }

  #setLinkCount(key: string, count: number): void {
    if (!this.reports.has(key) || this.sessionLinks.get(key) === count) return;
    this.sessionLinks.set(key, count);
    this.#changed.add(`sessionLinks/${key}`);
  }

  #deferLink(key: string, link: DeferredLink): void {
    const deferredLinks = this.deferredLinks.get(key);
    // Copies the payload, because a slice of the log record would keep the whole record in memory.
    const own = { ...link, event: { ...link.event, payload: copyOf(link.event.payload) } };
    if (deferredLinks === undefined) this.deferredLinks.set(key, [own]);
    else deferredLinks.push(own);
    this.#deferredBytes += link.event.payload.length + LINK_OVERHEAD_BYTES;
  }

  #dropDeferredLinks(key: string): void {
    for (const { event } of this.deferredLinks.get(key) ?? [])
      this.#deferredBytes -= event.payload.length + LINK_OVERHEAD_BYTES;
    this.deferredLinks.delete(key);
  }

  #track(key: string, value: TrackedReport | null): void {
    const before = this.reports.get(key);
    setOrDelete(this.reports, key, value);
    this.#dropDeferredLinks(key);
    if (value === null && this.sessionLinks.delete(key)) this.#changed.add(`sessionLinks/${key}`);
    this.#trackedEventIds += idsOf(value) - idsOf(before);
    const isWaiting = value?.phase === 'waiting';
    this.waiting.set(key, isWaiting ? 0 : undefined);
    this.asking.set(key, isWaiting ? undefined : (value?.askAt ?? undefined));
    this.closing.set(key, isWaiting ? undefined : value?.closesAt);
    if (value?.record.sessionId != null) this.sessionsWithReports.add(value.record.sessionId);
    const [closing, opening] = [openRecord(before), openRecord(value)];
    if (closing === opening) return;
    this.open.remove(key);
    if (opening !== undefined) this.open.add(key, opening);
  }

  #entryOf(key: string): LinkerEntry | null {
    const slash = key.indexOf('/');
    const [kind, name] = [key.slice(0, slash), key.slice(slash + 1)];
    const report = kind === 'report' ? (this.reports.get(name) ?? null) : null;
    const retraction = kind === 'retraction' ? (this.retractions.get(name) ?? null) : null;
    const late = kind === 'late' ? (this.late.get(name) ?? null) : null;
    const count = kind === 'sessionLinks' ? this.sessionLinks.get(name) : undefined;
    const sessionLinks: SessionLinkCount | null = count === undefined ? null : { count };
    const isDeleted = report === null && retraction === null && late === null && sessionLinks === null;
    return isDeleted ? null : { ...EMPTY_ENTRY, report, retraction, late, sessionLinks };
  }
}

function idsOf(tracked: TrackedReport | null | undefined): number {
  return tracked == null ? 0 : tracked.record.inlineEventIds.length + tracked.record.eventIds.length;
}

function openRecord(tracked: TrackedReport | null | undefined): ReportLink | undefined {
  return tracked?.phase === 'open' ? tracked.record : undefined;
}

function setOrDelete<T>(map: Map<string, T>, key: string, value: T | null): void {
  if (value === null) map.delete(key);
  else map.set(key, value);
}

function copyOf(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(copy);
  return copy;
}

class DueTimes {
  readonly #times = new Map<string, number>();
  #earliestMs = Number.POSITIVE_INFINITY;

  set(key: string, atMs: number | undefined): void {
    if (atMs === undefined) {
      this.#times.delete(key);
      return;
    }
    this.#times.set(key, atMs);
    this.#earliestMs = Math.min(this.#earliestMs, atMs);
  }

  due(nowMs: number): string[] {
    if (nowMs < this.#earliestMs) return [];
    const due: [key: string, atMs: number][] = [];
    let earliestMs = Number.POSITIVE_INFINITY;
    for (const [key, atMs] of this.#times) {
      if (atMs <= nowMs) due.push([key, atMs]);
      earliestMs = Math.min(earliestMs, atMs);
    }
    this.#earliestMs = earliestMs;
    return due.sort((a, b) => a[1] - b[1]).map(([key]) => key);
  }
}

/** Limits the number of links from a report to events of its session. Links to listed event ids are not limited. */
export class SessionLinkBudget {
  readonly #state: LinkerState;
  readonly #seenCounts: ReadonlyMap<string, number>;
  readonly #counts = new Map<string, number>();

  constructor(state: LinkerState, seenCounts: ReadonlyMap<string, number> = new Map()) {
    this.#state = state;
    this.#seenCounts = seenCounts;
    for (const [key, count] of seenCounts)
      this.#counts.set(key, Math.max(count, state.sessionLinks.get(key) ?? 0));
  }

  /** Counts one link to an event of the session. Returns false if the report already has its maximum number of these links. */
  take(key: string, { maxSessionLinks }: ReportLink): boolean {
    const made = this.#counts.get(key) ?? this.#state.sessionLinks.get(key) ?? 0;
    if (made >= maxSessionLinks) return false;
    this.#counts.set(key, made + 1);
    return true;
  }

  changes(): Change[] {
    const { sessionLinks } = this.#state;
    return [...this.#seenCounts]
      .filter(([key, count]) => count > (sessionLinks.get(key) ?? 0))
      .map(([key, atLeast]) => ({ entry: 'sessionLinks', key, atLeast }));
  }
}
