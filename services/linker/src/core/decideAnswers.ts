/** Applies the result of a ClickHouse lookup: links events to reports, and opens or closes reports. */
import type { LinkedEvent } from '@questlog/schemas/topics/linkedEvents';
import type { TrackedReport } from '@questlog/schemas/topics/linkerState';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { homePartitionOf, noticesToOwners, openReport } from './decideReports.ts';
import { type Change, type Decision, EMPTY_DECISION, type Notice, newLink } from './decision.ts';
import type { Answer, FoundEvent, ProjectedReport } from './jobs.ts';
import { type LinkerState, SessionLinkBudget } from './linkerState.ts';
import { ownersOf } from './ownership.ts';

/**
 * Interval at which the linker queries ClickHouse for the events of a report in the phase `spilled`. A report gets this phase
 * if too many reports are open.
 */
export const SPILLED_LOOK_UP_INTERVAL_MS = 10_000;

export interface AnswerContext {
  readonly state: LinkerState;
  readonly nowMs: number;
  readonly logId: string;
}

export function decideAnswer(moment: AnswerContext, answer: Answer): Decision {
  switch (answer.kind) {
    case 'check':
      return decideCheck(moment, answer);
    case 'unlink':
      return decideUnlink(moment, answer);
    case 'ask':
    case 'close':
      return decideAsk(moment, answer);
    case 'late':
      return decideLate(moment, answer);
  }
}

type AnswerTo<K> = Extract<Answer, { kind: K }>;

function decideCheck(
  { state, nowMs, logId }: AnswerContext,
  { reports, projected: known }: AnswerTo<'check'>,
): Decision {
  const notices: Notice[] = [];
  const changes: Change[] = [];
  for (const [key, tracked] of reports) {
    if (!isUnchanged(state, key, tracked)) continue;
    changes.push({ entry: 'report', key, value: null });
    const report = known.get(key);
    if (report === undefined || !isAccepted(tracked, report, logId)) continue;
    const record = withSessionLane(tracked.record, report.record.sessionLane);
    notices.push(...noticesToOwners(state, record, record));
    if (ownersOf(record, state.partitions).has(state.partition)) {
      changes.push(openReport(state, tracked.offset, record, nowMs));
    }
  }
  return { ...EMPTY_DECISION, notices, changes };
}

/**
 * Returns true if the linker opens the report that a record contains. ClickHouse can have several rows with the report's id.
 * `report` is the first of these rows.
 * - If the record only starts another search (`retried`): true if `report` is not retracted.
 * - If `report` comes from another log: true if `report` is not retracted.
 * - If `report` has a lower offset in the same log: false, because the record is a duplicate.
 * - If `report` has the offset of the record in the same log: true, because `report` is the row of the record.
 * - If `report` has a higher offset in the same log: true, because `report` was stored before a truncation.
 */
function isAccepted({ record, offset }: TrackedReport, report: ProjectedReport, logId: string): boolean {
  if (record.kind === 'retried') return !report.isRetracted;
  return report.logId === logId ? report.offset >= offset : !report.isRetracted;
}

function withSessionLane(record: ReportLink, sessionLane: number | null): ReportLink {
  return sessionLane === null ? { ...record, sessionId: null, sessionLane } : { ...record, sessionLane };
}

function decideUnlink({ state, nowMs, logId }: AnswerContext, answer: AnswerTo<'unlink'>): Decision {
  const { retractions, projected: known, found, isComplete: isWhole } = answer;
  const isValid = (key: string): boolean => {
    const retraction = retractions.get(key);
    const report = known.get(key);
    if (retraction === undefined || report === undefined) return false;
    // A retraction counts only if it follows its report in the log. The linker compares their positions before it forwards a
    // retraction, so a forwarded retraction always counts.
    const isLater = report.logId !== logId || report.offset < retraction.offset;
    return retraction.record.isForwarded || isLater;
  };
  const links = found
    .filter(({ key }) => isValid(key))
    .map(({ record, event, source }) => newLink('unlinked', record, event, source, nowMs));
  if (!isWhole) return { ...EMPTY_DECISION, links };
  const notices: Notice[] = [];
  const changes: Change[] = [];
  for (const [key, { record }] of retractions) {
    changes.push({ entry: 'retraction', key, value: null });
    const report = known.get(key);
    if (record.isForwarded || report === undefined || !isValid(key)) continue;
    notices.push(...noticesToOwners(state, report.record, record));
  }
  return { links, notices, changes };
}

/**
 * Links found events to their reports. A `close` lookup also closes the reports, and marks the links to missing events as
 * `unresolved`.
 */
function decideAsk({ state, nowMs }: AnswerContext, answer: AnswerTo<'ask' | 'close'>): Decision {
  const { kind, reports, isComplete: isWhole, missing, below } = answer;
  const found = answer.found.filter(({ key }) => state.reports.has(key) && reports.has(key));
  const budget = new SessionLinkBudget(state, answer.linkCounts);
  const fits = ({ key, record, source }: Pick<FoundEvent, 'key' | 'record' | 'source'>): boolean =>
    source !== 'session' || budget.take(key, record);
  const links = found.filter(fits).map((event) => linkOf(event, nowMs));
  const notices: Notice[] = [];
  const changes: Change[] = [];
  for (const [key, tracked] of isWhole ? reports : []) {
    if (!isUnchanged(state, key, tracked)) continue;
    const value = kind === 'close' ? null : { ...tracked, askAt: nextLookUpAt(tracked, nowMs) };
    changes.push({ entry: 'report', key, value });
    links.push(
      ...deferredLinksOf(state, key, tracked, below)
        .filter(fits)
        .map((deferred) => linkOf(deferred, nowMs)),
    );
    const eventIds = kind === 'close' ? (missing.get(key) ?? []) : [];
    if (eventIds.length > 0) {
      const partition = homePartitionOf(tracked.record, state.partitions);
      notices.push({ partition, record: unresolved(tracked.record, eventIds, nowMs) });
    }
  }
  return { links, notices, changes: [...budget.changes(), ...changes] };
}

function nextLookUpAt({ phase }: TrackedReport, nowMs: number): number | null {
  return phase === 'spilled' ? nowMs + SPILLED_LOOK_UP_INTERVAL_MS : null;
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

function decideLate({ state, nowMs }: AnswerContext, answer: AnswerTo<'late'>): Decision {
  const { sessions, found, isComplete: isWhole } = answer;
  const budget = new SessionLinkBudget(state, answer.linkCounts);
  const free = found.filter(({ key }) => !state.retractions.has(key));
  const isDone = isWhole && free.length === found.length;
  const changes: Change[] = [];
  for (const [key, session] of isDone ? sessions : []) {
    if (state.late.get(key) === session) changes.push({ entry: 'late', key, value: null });
  }
  const links = free.filter(({ key, record }) => budget.take(key, record));
  return {
    ...EMPTY_DECISION,
    links: links.map((event) => linkOf(event, nowMs)),
    changes: [...budget.changes(), ...changes],
  };
}

function linkOf({ record, event, source }: Omit<FoundEvent, 'key'>, nowMs: number): LinkedEvent {
  return newLink('linked', record, event, source, nowMs);
}

function deferredLinksOf(
  state: LinkerState,
  key: string,
  { record }: TrackedReport,
  below: number,
): FoundEvent[] {
  return (state.deferredLinks.get(key) ?? [])
    .filter(({ offset }) => offset >= below)
    .map(({ event, source }) => ({ key, record, event, source }));
}

function isUnchanged({ reports }: LinkerState, key: string, tracked: TrackedReport): boolean {
  return reports.get(key) === tracked;
}
