/** Decides what comes of a look-up: links that were missing, reports to open or to let go. Pure. */
import type { LinkedEvent } from '@questlog/schemas/topics/linkedEvents';
import type { TrackedReport } from '@questlog/schemas/topics/linkerState';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { homeOf, noticesToOwners, opened } from './decideReports.ts';
import { aLink, type Change, type Decision, NOTHING } from './decision.ts';
import type { Answer, FoundEvent, Job, KnownReport } from './jobs.ts';
import type { LinkerState } from './linkerState.ts';
import { ownersOf } from './ownership.ts';

/** A report that is not matched as events come is looked up so often. */
export const SPILLED_ASK_EVERY_MS = 10_000;

export function decideAnswer(
  state: LinkerState,
  job: Job,
  answer: Answer,
  nowMs: number,
  logId: string,
): Decision {
  if (job.kind === 'check' && answer.kind === 'check') return checked(state, job, answer, nowMs, logId);
  if (job.kind === 'unlink' && answer.kind === 'unlink') return unlinked(state, job, answer, nowMs, logId);
  if (job.kind === 'ask' && answer.kind === 'ask') return asked(state, job, answer, nowMs);
  if (job.kind === 'close' && answer.kind === 'close') return closed(state, job, answer, nowMs);
  if (job.kind === 'late' && answer.kind === 'late') return lateAsked(state, job, answer, nowMs);
  throw new Error(`a look-up of kind ${job.kind} was answered as ${answer.kind}`);
}

type Of<T, K> = Extract<T, { kind: K }>;

function checked(
  state: LinkerState,
  job: Of<Job, 'check'>,
  { known }: Of<Answer, 'check'>,
  nowMs: number,
  logId: string,
): Decision {
  const notices: Decision['notices'][number][] = [];
  const changes: Change[] = [];
  for (const [key, tracked] of job.reports) {
    if (!isStill(state, key, tracked)) continue;
    changes.push({ entry: 'report', key, value: null });
    const report = known.get(key);
    if (report === undefined || !isGood(tracked, report, logId)) continue;
    const record = withLane(tracked.record, report.record.sessionLane);
    notices.push(...noticesToOwners(state, record, record));
    if (ownersOf(record, state.partitions).has(state.partition)) {
      changes.push(opened(state, tracked.offset, record, nowMs));
    }
  }
  return { ...NOTHING, notices, changes };
}

function isGood({ record, offset }: TrackedReport, report: KnownReport, logId: string): boolean {
  if (record.kind === 'retried') return !report.isRetracted;
  return report.logId === logId && report.offset === offset;
}

/** A session that is not registered has no events; a report of it has what it names. */
function withLane(record: ReportLink, sessionLane: number | null): ReportLink {
  return sessionLane === null ? { ...record, sessionId: null, sessionLane } : { ...record, sessionLane };
}

function unlinked(
  state: LinkerState,
  job: Of<Job, 'unlink'>,
  { known, found, isWhole }: Of<Answer, 'unlink'>,
  nowMs: number,
  logId: string,
): Decision {
  const isValid = (key: string): boolean => {
    const retraction = job.retractions.get(key);
    const report = known.get(key);
    if (retraction === undefined || report === undefined) return false;
    // A retraction that came before its report retracts nothing; a copy was checked by who made it.
    const isLater = report.logId !== logId || report.offset < retraction.offset;
    return retraction.record.isForwarded || isLater;
  };
  const links = found
    .filter(({ key }) => isValid(key))
    .map(({ record, event, source }) => aLink('unlinked', record, event, source, nowMs));
  if (!isWhole) return { ...NOTHING, links };
  const notices: Decision['notices'][number][] = [];
  const changes: Change[] = [];
  for (const [key, { record }] of job.retractions) {
    changes.push({ entry: 'retraction', key, value: null });
    const report = known.get(key);
    if (record.isForwarded || report === undefined || !isValid(key)) continue;
    notices.push(...noticesToOwners(state, report.record, record));
  }
  return { links, notices, changes };
}

function asked(
  state: LinkerState,
  job: Of<Job, 'ask'>,
  { found, isWhole, below }: Of<Answer, 'ask'>,
  nowMs: number,
): Decision {
  const links = linksOf(state, job, found, nowMs);
  const changes: Change[] = [];
  for (const [key, tracked] of isWhole ? job.reports : []) {
    if (!isStill(state, key, tracked)) continue;
    const askAt = tracked.phase === 'spilled' ? nowMs + SPILLED_ASK_EVERY_MS : null;
    changes.push({ entry: 'report', key, value: { ...tracked, askAt } });
    links.push(...heldLinks(state, key, tracked, below, nowMs));
  }
  return { ...NOTHING, links, changes };
}

function closed(
  state: LinkerState,
  job: Of<Job, 'close'>,
  { found, isWhole, missing, below }: Of<Answer, 'close'>,
  nowMs: number,
): Decision {
  const links = linksOf(state, job, found, nowMs);
  const notices: Decision['notices'][number][] = [];
  const changes: Change[] = [];
  for (const [key, tracked] of isWhole ? job.reports : []) {
    // Asked for again meanwhile: the next last look-up sees that too.
    if (!isStill(state, key, tracked)) continue;
    changes.push({ entry: 'report', key, value: null });
    links.push(...heldLinks(state, key, tracked, below, nowMs));
    const eventIds = missing.get(key) ?? [];
    if (eventIds.length > 0) {
      const partition = homeOf(tracked.record, state.partitions);
      notices.push({ partition, record: unresolved(tracked.record, eventIds, nowMs) });
    }
  }
  return { links, notices, changes };
}

function unresolved(record: ReportLink, eventIds: readonly string[], nowMs: number): ReportLink {
  return {
    ...record,
    kind: 'unresolved',
    receivedAt: nowMs,
    inlineEventIds: [],
    eventIds,
    requestDigest: null,
    isForwarded: true,
  };
}

/**
 * Open reports take part: the look-up saw whatever they were linked to, so nothing is linked twice. The retraction's own
 * look-up decides whether a report is retracted; until then its sessions wait.
 */
function lateAsked(
  state: LinkerState,
  job: Of<Job, 'late'>,
  { found, isWhole }: Of<Answer, 'late'>,
  nowMs: number,
): Decision {
  const free = found.filter(({ key }) => !state.retractions.has(key));
  const links = free.map(({ record, event, source }) => aLink('linked', record, event, source, nowMs));
  const isDone = isWhole && free.length === found.length;
  const changes: Change[] = [];
  for (const [key, session] of isDone ? job.sessions : []) {
    // Extended while it was looked up: then it is looked up again.
    if (state.late.get(key) === session) changes.push({ entry: 'late', key, value: null });
  }
  return { ...NOTHING, links, changes };
}

/** A report that was retracted meanwhile gets no more links. */
function linksOf(
  state: LinkerState,
  job: Of<Job, 'ask' | 'close'>,
  found: readonly FoundEvent[],
  nowMs: number,
): LinkedEvent[] {
  return found
    .filter(({ key }) => state.reports.has(key) && job.reports.has(key))
    .map(({ record, event, source }) => aLink('linked', record, event, source, nowMs));
}

/** Tells the links that came behind the look-up, now that those before it are told. */
function heldLinks(
  state: LinkerState,
  key: string,
  { record }: TrackedReport,
  below: number,
  nowMs: number,
): LinkedEvent[] {
  return (state.held.get(key) ?? [])
    .filter(({ offset }) => offset >= below)
    .map(({ event, source }) => aLink('linked', record, event, source, nowMs));
}

/** The very entry that was asked about: one that was changed meanwhile is asked about again. */
function isStill({ reports }: LinkerState, key: string, tracked: TrackedReport): boolean {
  return reports.get(key) === tracked;
}
