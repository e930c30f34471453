/**
 * The knowledge of one partition's linker: the reports it waits for, by event and by session, what is still to be looked
 * up, and the appends it has seen. No events. `evolve` is the only way to change it; every change is an entry of the
 * changelog, from which a new owner builds the same state. Pure.
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

/** The bounds of one partition. */
export const LINKER_BOUNDS = {
  /** Reports that are matched as events come; further ones are looked up again and again instead (`spilled`). */
  openReports: 50_000,
  /** Events that these reports name, together. */
  openEventIds: 500_000,
  /**
   * Append ids that are remembered, at least, once there were more. The version before forgets none while there are no
   * more, and takes no more for a sign that it has: both must stay so while both run.
   */
  appends: 50_800,
  /** Bytes of links that wait behind look-ups; beyond it the look-up is made once more instead. */
  deferredLinkBytes: 16 * 1024 * 1024,
  /** Of a process. If there are more, every event off the clock is looked up, whether its session has a report or not. */
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
  /** Those of them that are matched as events come. */
  readonly open: OpenReports;
  readonly retractions = new Map<string, PendingRetraction>();
  readonly late = new Map<string, LateSession>();
  readonly deferredLinks = new Map<string, DeferredLink[]>();
  /** Of tracked reports: the links that they have by their session. */
  readonly sessionLinks = new Map<string, number>();
  /** Sessions of all reports, let go or not. Not in the changelog: the projected reports have them. */
  readonly sessionsWithReports: SessionsWithReports;
  readonly appends: RecentAppends;
  /**
   * The log has lost events that were read: they may come again, for reports that came meanwhile. The partition's next owner
   * does not know; its last look-ups find them.
   */
  wasTruncated = false;
  /** When each report is to be looked up, by what for. */
  readonly waiting = new DueTimes();
  readonly asking = new DueTimes();
  readonly closing = new DueTimes();
  readonly #bounds: LinkerBounds;
  readonly #changed = new Set<string>();
  #trackedEventIds = 0;
  #deferredBytes = 0;

  /** @param sessions of the process: its partitions share it. */
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

  /** A link goes with the next commit, and its count with it. */
  countLink(link: LinkedEvent): void {
    const key = keyOf(link);
    if (link.kind === 'linked' && link.source === 'session') {
      this.#setLinkCount(key, (this.sessionLinks.get(key) ?? 0) + 1);
    }
  }

  /** Whether the report may get another link by its session, as far as is known without a look-up. */
  hasLinksLeft(key: string, { maxSessionLinks }: ReportLink): boolean {
    return (this.sessionLinks.get(key) ?? 0) < maxSessionLinks;
  }

  /** The entries that the changelog must be told, latest values only. */
  drain(): { key: string; entry: LinkerEntry | null }[] {
    const entries = [...this.#changed].map((key) => ({ key, entry: this.#entryOf(key) }));
    this.#changed.clear();
    for (const [name, appends] of this.appends.drain()) {
      entries.push({ key: `append/${name}`, entry: appends && { ...EMPTY_ENTRY, appends } });
    }
    return entries;
  }

  /** Puts back an entry of the changelog; entries must come in the order in which they were written. */
  restore(key: string, entry: LinkerEntry): void {
    const slash = key.indexOf('/');
    const name = key.slice(slash + 1);
    if (entry.report !== null) this.#track(name, entry.report);
    if (entry.retraction !== null) this.retractions.set(name, entry.retraction);
    if (entry.late !== null) this.late.set(name, entry.late);
    if (entry.sessionLinks != null) this.sessionLinks.set(name, entry.sessionLinks.count);
    if (entry.appends !== null) this.appends.restore(name, entry.appends);
  }

  /** Counts the events that all tracked reports name, whatever their phase. */
  get trackedEventIds(): number {
    return this.#trackedEventIds;
  }

  get canDeferLinks(): boolean {
    return this.#deferredBytes < this.#bounds.deferredLinkBytes;
  }

  get canOpenReport(): boolean {
    return this.open.reports < this.#bounds.openReports && this.open.eventIds < this.#bounds.openEventIds;
  }

  /** Of a report that was let go ClickHouse knows. */
  #setLinkCount(key: string, count: number): void {
    if (!this.reports.has(key) || this.sessionLinks.get(key) === count) return;
    this.sessionLinks.set(key, count);
    this.#changed.add(`sessionLinks/${key}`);
  }

  #deferLink(key: string, link: DeferredLink): void {
    const deferredLinks = this.deferredLinks.get(key);
    // A payload is a view of its record's bytes and would keep all of them in memory.
    const own = { ...link, event: { ...link.event, payload: copyOf(link.event.payload) } };
    if (deferredLinks === undefined) this.deferredLinks.set(key, [own]);
    else deferredLinks.push(own);
    this.#deferredBytes += link.event.payload.length + LINK_OVERHEAD_BYTES;
  }

  /** Told, or found again by the look-up that the change asks for. */
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

/** Keys with the time at which each is due. Asking costs nothing while none is. */
class DueTimes {
  readonly #times = new Map<string, number>();
  /** No key is due before. */
  #earliestMs = Number.POSITIVE_INFINITY;

  /** @param atMs milliseconds since the epoch; undefined: never. */
  set(key: string, atMs: number | undefined): void {
    if (atMs === undefined) {
      this.#times.delete(key);
      return;
    }
    this.#times.set(key, atMs);
    this.#earliestMs = Math.min(this.#earliestMs, atMs);
  }

  /** Keys that are due, the longest due first. */
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

/**
 * Which links by session a report still gets: the first that come, in the order of the log, up to the number in its record.
 * What it names is little, and always linked. One partition decides about a session, so one counter does. The counters are
 * of one step: what it links counts at once.
 */
export class SessionLinkBudget {
  readonly #state: LinkerState;
  readonly #seenCounts: ReadonlyMap<string, number>;
  readonly #counts = new Map<string, number>();

  /** @param seenCounts links by session that a look-up saw, by `keyOf` the report: more than is remembered of one let go. */
  constructor(state: LinkerState, seenCounts: ReadonlyMap<string, number> = new Map()) {
    this.#state = state;
    this.#seenCounts = seenCounts;
    for (const [key, count] of seenCounts)
      this.#counts.set(key, Math.max(count, state.sessionLinks.get(key) ?? 0));
  }

  /** Takes one more; false: the report is full. */
  take(key: string, { maxSessionLinks }: ReportLink): boolean {
    const made = this.#counts.get(key) ?? this.#state.sessionLinks.get(key) ?? 0;
    if (made >= maxSessionLinks) return false;
    this.#counts.set(key, made + 1);
    return true;
  }

  /** What is linked is counted with its link; this adds what the look-up saw and nobody remembered. */
  changes(): Change[] {
    const { sessionLinks } = this.#state;
    return [...this.#seenCounts]
      .filter(([key, count]) => count > (sessionLinks.get(key) ?? 0))
      .map(([key, atLeast]) => ({ entry: 'sessionLinks', key, atLeast }));
  }
}
