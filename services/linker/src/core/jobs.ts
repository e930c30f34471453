/**
 * Chooses what to look up next. A partition asks one look-up at a time, and each sees everything that the partition had
 * linked before it: so a look-up may ask for all events of a report again and again, and links only those that are not
 * linked yet. One that waits for the projector can be set aside, for others to pass it. Pure.
 */
import { namedEventsOf, windowOf } from '@questlog/schemas/reportWindow';
import type { LinkSource, StoredEvent } from '@questlog/schemas/topics/linkedEvents';
import type { LateSession, PendingRetraction, TrackedReport } from '@questlog/schemas/topics/linkerState';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import type { LinkerState } from './linkerState.ts';
import { ownedEventsOf, ownsSession } from './ownership.ts';

export type Job =
  /** Which of the reports are the first of their ids? Known once their records are projected. */
  | { readonly kind: 'check'; readonly reports: ReadonlyMap<string, TrackedReport> }
  /** What is linked to the reports and must be taken back? */
  | { readonly kind: 'unlink'; readonly retractions: ReadonlyMap<string, PendingRetraction> }
  /** Which events of the reports are not linked yet? */
  | { readonly kind: 'ask'; readonly reports: ReadonlyMap<string, TrackedReport> }
  /** The same, once everything that was in the log when the grace ended has been linked or is projected. */
  | { readonly kind: 'close'; readonly reports: ReadonlyMap<string, TrackedReport> }
  /** Which events of these sessions belong to reports that were let go? */
  | { readonly kind: 'late'; readonly sessions: ReadonlyMap<string, LateSession> };

/** A look-up's question about one report. */
export interface Ask {
  readonly key: string;
  readonly record: ReportLink;
  /** The events that it names and this partition decides about. */
  readonly events: ReadonlyMap<string, LinkSource>;
  /** The events of its session, where this partition decides about them; but not those that it names. */
  readonly session: {
    readonly id: string;
    readonly fromMicros: bigint;
    readonly toMicros: bigint;
    readonly except: readonly string[];
  } | null;
}

export interface FoundEvent {
  readonly key: string;
  readonly record: ReportLink;
  readonly event: StoredEvent;
  readonly source: LinkSource;
}

/** One row of the reports, as projected. */
export interface KnownReport {
  /** It has its session's lane, even if the writer did not say it; null only for a session that is not registered. */
  readonly record: ReportLink;
  readonly logId: string;
  /** The offset of the record that filed it. */
  readonly offset: number;
  readonly isRetracted: boolean;
}

export interface Found {
  readonly found: readonly FoundEvent[];
  /** The partition's own events were seen below this offset. */
  readonly below: number;
  /** False: there is more, ask again. */
  readonly isWhole: boolean;
  /** Per report, the events that it names and that the look-up did not see; complete only when `isWhole`. */
  readonly missing: ReadonlyMap<string, readonly string[]>;
}

export type JobOf<K> = Extract<Job, { kind: K }>;

/** A job with what came of it. */
export type Answer =
  | (JobOf<'check'> & { readonly known: KnownReports })
  | (JobOf<'unlink'> & { readonly known: KnownReports } & Pick<Found, 'found' | 'isWhole'>)
  | (JobOf<'ask'> & Found)
  | (JobOf<'close'> & Found)
  | (JobOf<'late'> & Found);

/** By `keyOf`. */
export type KnownReports = ReadonlyMap<string, KnownReport>;

/** Reports, retractions or sessions of one look-up, and events that its reports name. */
export const MAX_A_JOB = 1_000;
const MAX_EVENT_IDS_A_JOB = 20_000;

const KINDS = ['unlink', 'check', 'ask', 'close', 'late'] as const;

/** Look-ups that were begun and wait for the projector. */
export type Aside = ReadonlyMap<Job['kind'], { readonly job: Job }>;

/**
 * The kinds take turns, so that none of them waits for ever.
 * @param after of the look-up before.
 * @param max reports, retractions or sessions; fewer than `MAX_A_JOB` after a look-up that failed.
 * @param aside the turns of their kinds are theirs: the very job is given again.
 */
export function nextJob(
  state: LinkerState,
  nowMs: number,
  { after, max, aside }: { after: Job['kind'] | undefined; max: number; aside: Aside },
): Job | undefined {
  const first = after === undefined ? 0 : KINDS.indexOf(after) + 1;
  const inTurn = [...KINDS.slice(first), ...KINDS.slice(0, first)];
  for (const kind of inTurn) {
    const begun = aside.get(kind)?.job;
    const job = begun ?? (mayPass(kind, aside) ? jobOf(kind, state, nowMs, max) : undefined);
    if (job !== undefined) return job;
  }
  return undefined;
}

/**
 * Events that came since an `ask` or a `close` began are held until it is answered, and told then. A look-up that began
 * later would find them too, and they would be told twice; but it may check reports and take links back.
 */
function mayPass(kind: Job['kind'], aside: Aside): boolean {
  return kind === 'check' || kind === 'unlink' || !(aside.has('ask') || aside.has('close'));
}

function jobOf(kind: Job['kind'], state: LinkerState, nowMs: number, max: number): Job | undefined {
  switch (kind) {
    case 'unlink':
      return state.retractions.size === 0
        ? undefined
        : { kind, retractions: firstOf(state.retractions, max) };
    case 'late':
      return state.late.size === 0 ? undefined : { kind, sessions: firstOf(state.late, max) };
    case 'check':
    case 'ask':
    case 'close': {
      const times = { check: state.waiting, ask: state.asking, close: state.closing }[kind];
      const reports = tracked(state, times.due(nowMs), max);
      return reports.size === 0 ? undefined : { kind, reports };
    }
  }
}

export function askOf(state: LinkerState, key: string, record: ReportLink): Ask {
  return {
    key,
    record,
    events: ownedEventsOf(record, state.partition, state.partitions),
    session:
      record.sessionId !== null && ownsSession(record, state.partition, state.partitions)
        ? { id: record.sessionId, ...windowOf(record), except: [...namedEventsOf(record).keys()] }
        : null,
  };
}

function tracked(state: LinkerState, keys: readonly string[], max: number): Map<string, TrackedReport> {
  const reports = new Map<string, TrackedReport>();
  let eventIds = 0;
  for (const key of keys) {
    const report = state.reports.get(key);
    if (report === undefined) continue;
    eventIds += report.record.inlineEventIds.length + report.record.eventIds.length;
    if (reports.size === max || (reports.size > 0 && eventIds > MAX_EVENT_IDS_A_JOB)) break;
    reports.set(key, report);
  }
  return reports;
}

function firstOf<T>(entries: ReadonlyMap<string, T>, max: number): Map<string, T> {
  const first = new Map<string, T>();
  for (const [key, value] of entries) {
    if (first.size === max) break;
    first.set(key, value);
  }
  return first;
}
