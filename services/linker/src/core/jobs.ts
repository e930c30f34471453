/** Chooses which lookup the linker runs next in ClickHouse. */
import { namedEventsOf, windowOf } from '@questlog/schemas/reportWindow';
import type { LinkSource, StoredEvent } from '@questlog/schemas/topics/linkedEvents';
import type { LateSession, PendingRetraction, TrackedReport } from '@questlog/schemas/topics/linkerState';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import type { LinkerState } from './linkerState.ts';
import { ownedEventsOf, ownsSession } from './ownership.ts';

export type Job =
  /** A `check` lookup finds out whether an earlier report has the same id. */
  | { readonly kind: 'check'; readonly reports: ReadonlyMap<string, TrackedReport> }
  /** An `unlink` lookup finds the links of retracted reports, so that the linker can retract the links. */
  | { readonly kind: 'unlink'; readonly retractions: ReadonlyMap<string, PendingRetraction> }
  /** An `ask` lookup finds events that belong to open reports and have no link yet. */
  | { readonly kind: 'ask'; readonly reports: ReadonlyMap<string, TrackedReport> }
  /** A `close` lookup searches a report's events one last time, after ClickHouse has all events of the grace period. */
  | { readonly kind: 'close'; readonly reports: ReadonlyMap<string, TrackedReport> }
  /** A `late` lookup finds the reports to which late events must be linked. These reports can be open or closed. */
  | { readonly kind: 'late'; readonly sessions: ReadonlyMap<string, LateSession> };

export interface LinkQuery {
  readonly key: string;
  readonly record: ReportLink;
  readonly events: ReadonlyMap<string, LinkSource>;
  /** Session and time range in which the query searches for events. Null if the query searches only for events by id. */
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

export interface ProjectedReport {
  readonly record: ReportLink;
  readonly logId: string;
  readonly offset: number;
  readonly isRetracted: boolean;
}

export interface FoundLinks {
  readonly found: readonly FoundEvent[];
  /** Offset in the events topic. The lookup has searched all events of the linker's partition before this offset. */
  readonly below: number;
  /** True if the lookup found all events. Otherwise, the result reached a size limit, and the lookup runs again. */
  readonly isComplete: boolean;
  readonly linkCounts: ReadonlyMap<string, number>;
  readonly missing: ReadonlyMap<string, readonly string[]>;
}

export type JobOf<K> = Extract<Job, { kind: K }>;

export type Answer =
  | (JobOf<'check'> & { readonly projected: ProjectedReports })
  | (JobOf<'unlink'> & { readonly projected: ProjectedReports } & Pick<FoundLinks, 'found' | 'isComplete'>)
  | (JobOf<'ask'> & FoundLinks)
  | (JobOf<'close'> & FoundLinks)
  | (JobOf<'late'> & FoundLinks);

export type ProjectedReports = ReadonlyMap<string, ProjectedReport>;

export const MAX_ENTRIES_PER_JOB = 1_000;
const MAX_EVENT_IDS_PER_JOB = 20_000;

const KINDS = ['unlink', 'check', 'ask', 'close', 'late'] as const;

/** Projects with heavy reports. One lookup cannot return all events of these reports. */
export interface HeavyProjects {
  /** Maximum number of reports per lookup, by project. The map starts with the project that has waited longest. */
  readonly projects: ReadonlyMap<string, number>;
  /** True if the next lookup is for a project in `projects`. */
  readonly isNext: boolean;
}
export const NO_HEAVY_PROJECTS: HeavyProjects = { projects: new Map(), isNext: false };

/** Halves the number of a project's reports per lookup after an incomplete result. Otherwise, doubles the number. */
export function heavyProjectsAfter(heavy: HeavyProjects, answer: Answer): HeavyProjects {
  if (answer.kind === 'check') return heavy;
  const projects = new Map(heavy.projects);
  const queried = new Set([...keysOf(answer)].map(projectOf));
  const found = Map.groupBy(answer.found, ({ key }) => projectOf(key));
  const foundCount = (project: string): number => found.get(project)?.length ?? 0;
  const [heaviest] = [...queried].toSorted((a, b) => foundCount(b) - foundCount(a));
  for (const project of queried) {
    const max = projects.get(project);
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

export type SuspendedJobs = ReadonlyMap<Job['kind'], { readonly job: Job }>;

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
 * While an `ask` or `close` lookup is suspended, only `check` and `unlink` lookups may start. Another lookup for events would
 * write the same links.
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
