/** An append of events: which of the open reports each of them belongs to. Pure. */
import { isInWindow, OFF_CLOCK_MS } from '@questlog/schemas/reportWindow';
import type { AcceptedEvent, EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import type { LinkedEvent, LinkSource } from '@questlog/schemas/topics/linkedEvents';
import type { LateSession } from '@questlog/schemas/topics/linkerState';
import { millisOf } from '@questlog/schemas/uuid';
import { AT_ONCE, aLink, type Change, type Decision, LINK_BYTES, NOTHING } from './decision.ts';
import { type LinkerState, SessionLinks } from './linkerState.ts';
import type { OpenReport } from './openReports.ts';

/** Links of one append beyond so many bytes are left to a look-up, which makes them in portions. */
export const MAX_FAN_OUT_BYTES = 8 * 1024 * 1024;

interface Match {
  readonly report: OpenReport;
  readonly event: AcceptedEvent;
  readonly source: LinkSource;
}

/**
 * @param arrivedAtMs when the log took the append, milliseconds since the epoch.
 * @param isReplayed it comes from the dead letters: what it brings may have been linked, and its reports be let go.
 */
export function decideEvents(
  state: LinkerState,
  { offset, arrivedAtMs, isReplayed = false }: { offset: number; arrivedAtMs: number; isReplayed?: boolean },
  message: EventsAccepted,
  nowMs: number,
): Decision {
  const isRepeat = state.appends.has(message.appendId);
  const late = lateSessions(state, offset, isReplayed ? Number.MAX_SAFE_INTEGER : arrivedAtMs, message);
  if (isRepeat && !state.wasCut && !isReplayed) return { ...NOTHING, changes: late };
  const matches: Match[] = [];
  for (const event of message.events) collectMatches(state, message, event, matches);
  const changes: Change[] = [
    ...(isRepeat ? [] : [{ entry: 'append', id: message.appendId, arrivedAtMs } as const]),
    ...late,
  ];
  if (isRepeat || isReplayed || mayBeRepeat(state, message) || fanOutBytes(matches) > MAX_FAN_OUT_BYTES) {
    const reports = new Set(matches.map(({ report }) => report.key));
    return { ...NOTHING, changes: [...changes, ...askAgain(state, reports)] };
  }
  const links: LinkedEvent[] = [];
  const overflowing = new Set<string>();
  const sessionLinks = new SessionLinks(state);
  for (const { report, event, source } of matches) {
    const stored = { ...event, receivedAt: message.receivedAt };
    if (state.reports.get(report.key)?.askAt === null) {
      if (source !== 'session' || sessionLinks.take(report.key, report.record))
        links.push(aLink('linked', report.record, stored, source, nowMs));
    } else if (state.hasRoomToHold)
      changes.push({ entry: 'held', key: report.key, link: { offset, event: stored, source } });
    else overflowing.add(report.key);
  }
  return { links, notices: [], changes: [...changes, ...askAgain(state, overflowing)] };
}

/** Has the reports looked up as soon as may be. */
export function askAgain(state: LinkerState, keys: Iterable<string>): Change[] {
  const changes: Change[] = [];
  for (const key of keys) {
    const tracked = state.reports.get(key);
    if (tracked === undefined || tracked.phase === 'waiting') continue;
    changes.push({ entry: 'report', key, value: { ...tracked, askAt: AT_ONCE } });
  }
  return changes;
}

/** A keyed request may come again when its first append is no longer remembered; its key is older then. */
function mayBeRepeat({ appends }: LinkerState, { idempotency }: EventsAccepted): boolean {
  return idempotency !== null && millisOf(idempotency.key) <= appends.since;
}

function collectMatches(
  state: LinkerState,
  { tenantId, projectId }: EventsAccepted,
  event: AcceptedEvent,
  matches: Match[],
): void {
  const isOurs = ({ record }: OpenReport): boolean =>
    record.projectId === projectId && record.tenantId === tenantId;
  for (const report of state.open.naming(event.id)) {
    if (!isOurs(report)) continue;
    const source = report.record.inlineEventIds.includes(event.id) ? 'inline' : 'named';
    matches.push({ report, event, source });
  }
  if (event.sessionId === null) return;
  for (const report of state.open.ofSession(event.sessionId)) {
    if (!isOurs(report) || !isInWindow(event.occurredAt, report.window)) continue;
    if (!state.hasLinksLeft(report.key, report.record)) continue;
    if (!isNamed(report, event.id)) matches.push({ report, event, source: 'session' });
  }
}

/** Then it is linked as such, by whichever partition the id belongs to. */
function isNamed({ record }: OpenReport, eventId: string): boolean {
  return record.inlineEventIds.includes(eventId) || record.eventIds.includes(eventId);
}

function fanOutBytes(matches: readonly Match[]): number {
  return matches.reduce((sum, { event }) => sum + event.payload.length + LINK_BYTES, 0);
}

/** Events off the clock, and such as came long after they were received, may belong to reports that were let go. */
function lateSessions(
  state: LinkerState,
  offset: number,
  arrivedAtMs: number,
  message: EventsAccepted,
): Change[] {
  const earliest = BigInt(Math.max(arrivedAtMs, message.receivedAt) - OFF_CLOCK_MS) * 1000n;
  const latest = BigInt(message.receivedAt + OFF_CLOCK_MS) * 1000n;
  const late = new Map<string, LateSession>();
  for (const { sessionId, occurredAt } of message.events) {
    if (sessionId === null || (occurredAt >= earliest && occurredAt <= latest)) continue;
    if (!state.sessionsWithReports.mayHave(sessionId)) continue;
    const key = `${message.projectId}/${sessionId}`;
    const known = late.get(key) ?? state.late.get(key);
    late.set(key, {
      tenantId: message.tenantId,
      projectId: message.projectId,
      sessionId,
      fromMicros: known === undefined || occurredAt < known.fromMicros ? occurredAt : known.fromMicros,
      toMicros: known === undefined || occurredAt > known.toMicros ? occurredAt : known.toMicros,
      offset,
    });
  }
  return [...late].map(([key, value]) => ({ entry: 'late', key, value }));
}
