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
export interface LinkQuery {
  readonly key: string;
  readonly record: ReportLink;
  /** The events that it names and this partition decides about. */
  readonly events: ReadonlyMap<string, LinkSource>;
  /** The events of its session, where this partition decides about them; but not those that it names. */
  readonly session: {
    readonly id: string;
    readonly fromMicros: bigint;
    readonly toMicros: bigint;
    readonly excludedEventIds: readonly string[];
  } | null;
}

export interface FoundEvent {
  readonly key: string;
  readonly record: ReportLink;
  readonly event: StoredEvent;
  readonly source: LinkSource;
}

/** One row of the reports, as projected. */
export interface ProjectedReport {
  /** It has its session's lane, even if the writer did not say it; null only for a session that is not registered. */
  readonly record: ReportLink;
  readonly logId: string;
  /** The offset of the record that filed it. */
  readonly offset: number;
  readonly isRetracted: boolean;
}

export interface FoundLinks {
  readonly found: readonly FoundEvent[];
  /** The partition's own events were seen below this offset. */
  readonly below: number;
  /** False: there is more, ask again. */
  readonly isComplete: boolean;
  /** Per report, the links by its session that were there. */
  readonly linkCounts: ReadonlyMap<string, number>;
  /** Per report, the events that it names and that the look-up did not see; complete only when `isWhole`. */
  readonly missing: ReadonlyMap<string, readonly string[]>;
}

export type JobOf<K> = Extract<Job, { kind: K }>;

/** A job with what came of it. */
export type Answer =
  | (JobOf<'check'> & { readonly projected: ProjectedReports })
  | (JobOf<'unlink'> & { readonly projected: ProjectedReports } & Pick<FoundLinks, 'found' | 'isComplete'>)
  | (JobOf<'ask'> & FoundLinks)
  | (JobOf<'close'> & FoundLinks)
  | (JobOf<'late'> & FoundLinks);

/** By `keyOf`. */
export type ProjectedReports = ReadonlyMap<string, ProjectedReport>;

/** Reports, retractions or sessions of one look-up, and events that its reports name. */
export const MAX_ENTRIES_PER_JOB = 1_000;
const MAX_EVENT_IDS_PER_JOB = 20_000;

const KINDS = ['unlink', 'check', 'ask', 'close', 'late'] as const;

/**
 * The projects with more to look up than one answer takes, the one that waits longest first, and how many reports of each a
 * look-up has. They have every second look-up, one project at a time, so that none holds up the others.
 */
export interface HeavyProjects {
  readonly projects: ReadonlyMap<string, number>;
  readonly isNext: boolean;
}
export const NO_HEAVY_PROJECTS: HeavyProjects = { projects: new Map(), isNext: false };

/**
 * Which projects are heavy once the answer is taken in: with half as many reports after each answer that was not whole, and
 * twice as many after one that was.
 */
export function heavyProjectsAfter(heavy: HeavyProjects, answer: Answer): HeavyProjects {
  if (answer.kind === 'check') return heavy;
  const projects = new Map(heavy.projects);
  const queried = new Set([...keysOf(answer)].map(projectOf));
  const found = Map.groupBy(answer.found, ({ key }) => projectOf(key));
  const foundCount = (project: string): number => found.get(project)?.length ?? 0;
  const [heaviest] = [...queried].toSorted((a, b) => foundCount(b) - foundCount(a));
  for (const project of queried) {
    const max = projects.get(project);
    // To the end of the line.
    projects.delete(project);
    if (answer.isComplete && max !== undefined && max * 2 < MAX_ENTRIES_PER_JOB)
      projects.set(project, max * 2);
    if (!answer.isComplete && project === heaviest)
      projects.set(project, Math.max(1, (max ?? MAX_ENTRIES_PER_JOB) >> 1));
  }
  return { projects, isNext: ![...queried].some((project) => heavy.projects.has(project)) };
}

function keysOf(job: Exclude<Job, { kind: 'check' }>): Iterable<string> {
  if (job.kind === 'late') return job.sessions.keys();
  return job.kind === 'unlink' ? job.retractions.keys() : job.reports.keys();
}

/** Look-ups that were begun and wait for the projector. */
export type SuspendedJobs = ReadonlyMap<Job['kind'], { readonly job: Job }>;

/**
 * The kinds take turns, so that none of them waits for ever.
 * @param after of the look-up before.
 * @param max reports, retractions or sessions; fewer than `MAX_ENTRIES_PER_JOB` after a look-up that failed.
 * @param aside the turns of their kinds are theirs: the very job is given again.
 * @param heavy as `heavyAfter` gave it for the last answer.
 */
export function nextJob(
  state: LinkerState,
  nowMs: number,
  {
    after,
    max,
    suspended,
    heavy = NO_HEAVY_PROJECTS,
  }: { after: Job['kind'] | undefined; max: number; suspended: SuspendedJobs; heavy?: HeavyProjects },
): Job | undefined {
  const first = after === undefined ? 0 : KINDS.indexOf(after) + 1;
  const kinds = [...KINDS.slice(first), ...KINDS.slice(0, first)];
  for (const kind of kinds) {
    const suspendedJob = suspended.get(kind)?.job;
    const job =
      suspendedJob ??
      (mayOvertake(kind, suspended) ? createJob(kind, { state, nowMs, max, heavy }) : undefined);
    if (job !== undefined) return job;
  }
  return undefined;
}

/**
 * Events that came since an `ask` or a `close` began are held until it is answered, and told then. A look-up that began
 * later would find them too, and they would be told twice; but it may check reports and take links back.
 */
function mayOvertake(kind: Job['kind'], suspended: SuspendedJobs): boolean {
  return kind === 'check' || kind === 'unlink' || !(suspended.has('ask') || suspended.has('close'));
}

interface JobOptions {
  readonly state: LinkerState;
  readonly nowMs: number;
  readonly max: number;
  readonly heavy: HeavyProjects;
}

function createJob(kind: Job['kind'], options: JobOptions): Job | undefined {
  const { state, nowMs } = options;
  switch (kind) {
    case 'unlink':
      return state.retractions.size === 0
        ? undefined
        : { kind, retractions: firstEntries(options, state.retractions) };
    case 'late':
      return state.late.size === 0 ? undefined : { kind, sessions: firstEntries(options, state.late) };
    case 'check':
    case 'ask':
    case 'close': {
      const times = { check: state.waiting, ask: state.asking, close: state.closing }[kind];
      const reports = dueReports(
        kind === 'check' ? { ...options, heavy: NO_HEAVY_PROJECTS } : options,
        times.due(nowMs),
      );
      return reports.size === 0 ? undefined : { kind, reports };
    }
  }
}

export function linkQueryOf(state: LinkerState, key: string, record: ReportLink): LinkQuery {
  return {
    key,
    record,
    events: ownedEventsOf(record, state.partition, state.partitions),
    session:
      record.sessionId !== null &&
      ownsSession(record, state.partition, state.partitions) &&
      state.hasLinksLeft(key, record)
        ? { id: record.sessionId, ...windowOf(record), excludedEventIds: [...namedEventsOf(record).keys()] }
        : null,
  };
}

function dueReports({ state, max, heavy }: JobOptions, keys: readonly string[]): Map<string, TrackedReport> {
  const reports = new Map<string, TrackedReport>();
  let eventIds = 0;
  for (const key of roundRobin(heavy, keys)) {
    const report = state.reports.get(key);
    if (report === undefined) continue;
    eventIds += report.record.inlineEventIds.length + report.record.eventIds.length;
    if (reports.size === max || (reports.size > 0 && eventIds > MAX_EVENT_IDS_PER_JOB)) break;
    reports.set(key, report);
  }
  return reports;
}

function firstEntries<T>({ max, heavy }: JobOptions, entries: ReadonlyMap<string, T>): Map<string, T> {
  const first = new Map<string, T>();
  for (const key of roundRobin(heavy, [...entries.keys()])) {
    const value = entries.get(key);
    if (first.size === max) break;
    if (value !== undefined) first.set(key, value);
  }
  return first;
}

/** The keys that the next look-up may have, those of each project in turn. */
function* roundRobin({ projects, isNext }: HeavyProjects, keys: readonly string[]): Iterable<string> {
  const byProject = Map.groupBy(keys, projectOf);
  const next = [...projects].find(([project]) => byProject.has(project));
  let others = [...byProject].filter(([project]) => !projects.has(project)).map(([, own]) => own);
  if (next !== undefined && (isNext || others.length === 0)) {
    const [project, max] = next;
    yield* (byProject.get(project) ?? []).slice(0, max);
    return;
  }
  for (let i = 0; others.length > 0; i++) {
    for (const own of others) yield own[i] ?? '';
    others = others.filter(({ length }) => length > i + 1);
  }
}

function projectOf(key: string): string {
  return key.slice(0, key.indexOf('/'));
}
