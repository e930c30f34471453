/** Links newly arrived events to open reports. */
import { isInWindow, MAX_CLOCK_SKEW_MS } from '@questlog/schemas/reportWindow';
import type { EventsRecord } from '@questlog/schemas/topics/eventsRecord';
import type { LinkedEvent, LinkSource } from '@questlog/schemas/topics/linkedEvents';
import type { LateSession } from '@questlog/schemas/topics/linkerState';
import { millisOf } from '@questlog/schemas/uuid';
import {
  type Change,
  type Decision,
  DUE_NOW,
  EMPTY_DECISION,
  LINK_OVERHEAD_BYTES,
  newLink,
} from './decision.ts';
import { type LinkerState, SessionLinkBudget } from './linkerState.ts';
import type { OpenReport } from './openReports.ts';

/**
 * Maximum total size of the new links of one log record. If the links are larger, the linker looks up the events in ClickHouse.
 */
export const MAX_FAN_OUT_BYTES = 8 * 1024 * 1024;

interface Match {
  readonly report: OpenReport;
  readonly event: number;
  readonly source: LinkSource;
}

/** Returns the new links between open reports and the events of one log record. */
export function decideEvents(
  state: LinkerState,
  { offset, arrivedAtMs, isReplayed = false }: { offset: number; arrivedAtMs: number; isReplayed?: boolean },
  record: EventsRecord,
  nowMs: number,
): Decision {
  const isDuplicate = state.appends.has(record.appendId);
  const late = lateSessions(state, offset, isReplayed ? Number.MAX_SAFE_INTEGER : arrivedAtMs, record);
  if (isDuplicate && !state.wasTruncated && !isReplayed) return { ...EMPTY_DECISION, changes: late };
  const matches: Match[] = [];
  const events = state.open.reports === 0 ? 0 : record.count;
  for (let event = 0; event < events; event++) collectMatches(state, record, event, matches);
  const changes: Change[] = [
    ...(isDuplicate ? [] : [{ entry: 'append', id: record.appendId, arrivedAtMs } as const]),
    ...late,
  ];
  if (
    isDuplicate ||
    isReplayed ||
    mayBeDuplicate(state, record) ||
    fanOutBytes(record, matches) > MAX_FAN_OUT_BYTES
  ) {
    const reports = new Set(matches.map(({ report }) => report.key));
    return { ...EMPTY_DECISION, changes: [...changes, ...requestLookUps(state, reports)] };
  }
  const links: LinkedEvent[] = [];
  const overflowing = new Set<string>();
  const budget = new SessionLinkBudget(state);
  for (const { report, event, source } of matches) {
    const stored = { ...record.event(event), receivedAt: record.receivedAt };
    if (state.reports.get(report.key)?.askAt === null) {
      if (source !== 'session' || budget.take(report.key, report.record))
        links.push(newLink('linked', report.record, stored, source, nowMs));
    } else if (state.canDeferLinks)
      changes.push({ entry: 'held', key: report.key, link: { offset, event: stored, source } });
    else overflowing.add(report.key);
  }
  return { links, notices: [], changes: [...changes, ...requestLookUps(state, overflowing)] };
}

export function requestLookUps(state: LinkerState, keys: Iterable<string>): Change[] {
  const changes: Change[] = [];
  for (const key of keys) {
    const tracked = state.reports.get(key);
    if (tracked === undefined || tracked.phase === 'waiting') continue;
    changes.push({ entry: 'report', key, value: { ...tracked, askAt: DUE_NOW } });
  }
  return changes;
}

/** True if the append may be a duplicate: its idempotency key is older than all append ids that are still cached. */
function mayBeDuplicate({ appends }: LinkerState, { idempotency }: EventsRecord): boolean {
  return idempotency !== null && millisOf(idempotency.key) <= appends.since;
}

function collectMatches(state: LinkerState, record: EventsRecord, event: number, matches: Match[]): void {
  const { tenantId, projectId } = record;
  const isOfSameProject = ({ record }: OpenReport): boolean =>
    record.projectId === projectId && record.tenantId === tenantId;
  const id = record.id(event);
  for (const report of state.open.reportsNaming(id)) {
    if (!isOfSameProject(report)) continue;
    const source = report.record.inlineEventIds.includes(id) ? 'inline' : 'named';
    matches.push({ report, event, source });
  }
  const sessionId = record.sessionId(event);
  if (sessionId === null) return;
  for (const report of state.open.reportsOfSession(sessionId)) {
    if (!isOfSameProject(report) || !isInWindow(record.occurredAt(event), report.window)) continue;
    if (!state.hasLinksLeft(report.key, report.record)) continue;
    if (!isNamed(report, id)) matches.push({ report, event, source: 'session' });
  }
}

function isNamed({ record }: OpenReport, eventId: string): boolean {
  return record.inlineEventIds.includes(eventId) || record.eventIds.includes(eventId);
}

function fanOutBytes(record: EventsRecord, matches: readonly Match[]): number {
  return matches.reduce((sum, { event }) => sum + record.payloadBytes(event) + LINK_OVERHEAD_BYTES, 0);
}

function lateSessions(
  state: LinkerState,
  offset: number,
  arrivedAtMs: number,
  record: EventsRecord,
): Change[] {
  const { tenantId, projectId, receivedAt } = record;
  const earliest = (Math.max(arrivedAtMs, receivedAt) - MAX_CLOCK_SKEW_MS) * 1000;
  const latest = (receivedAt + MAX_CLOCK_SKEW_MS) * 1000;
  const late = new Map<string, LateSession>();
  for (let event = 0; event < record.count; event++) {
    const about = record.roundedMicros(event);
    if (about >= earliest && about <= latest) continue;
    const sessionId = record.sessionId(event);
    if (sessionId === null || !state.sessionsWithReports.mayContain(sessionId)) continue;
    const occurredAt = record.occurredAt(event);
    const key = `${projectId}/${sessionId}`;
    const known = late.get(key) ?? state.late.get(key);
    late.set(key, {
      tenantId,
      projectId,
      sessionId,
      fromMicros: known === undefined || occurredAt < known.fromMicros ? occurredAt : known.fromMicros,
      toMicros: known === undefined || occurredAt > known.toMicros ? occurredAt : known.toMicros,
      offset,
    });
  }
  return [...late].map(([key, value]) => ({ entry: 'late', key, value }));
}
