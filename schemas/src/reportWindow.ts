/** Decides whether an event belongs to a report of its session. Ingest uses the rule for answers, and the linker for links. */
import type { LinkSource } from './topics/linkedEvents.ts';
import { MAX_WINDOW_MS, type ReportLink } from './topics/reportLinks.ts';

/** Time window in microseconds since the epoch. Both ends are inclusive. */
export interface ReportWindow {
  readonly fromMicros: bigint;
  readonly toMicros: bigint;
}

type Timed = Pick<ReportLink, 'occurredAt' | 'receivedAt' | 'windowBeforeMs' | 'windowAfterMs'>;

export function reportTimeOf({ occurredAt, receivedAt }: Timed): bigint {
  return occurredAt ?? BigInt(receivedAt) * 1000n;
}

export function windowOf(report: Timed): ReportWindow {
  const at = reportTimeOf(report);
  return {
    fromMicros: at - BigInt(report.windowBeforeMs) * 1000n,
    toMicros: at + BigInt(report.windowAfterMs) * 1000n,
  };
}

export function isInWindow(occurredAt: bigint, { fromMicros, toMicros }: ReportWindow): boolean {
  return occurredAt >= fromMicros && occurredAt <= toMicros;
}

/** Time after the window during which a report accepts late events. */
export const GRACE_MS = 15 * 60 * 1000;
/** Maximum time between the receipt of a report and its grace period. It is enough for a game clock that is a day ahead. */
const MAX_OPEN_MS = 2 * MAX_WINDOW_MS;

/** Returns the time of the report's last lookup, in milliseconds since the epoch. The linker then closes the report. */
export function closesAtMs(report: Timed): number {
  const windowEndMs = Number(windowOf(report).toMicros / 1000n) + 1;
  const lastMs = Math.min(Math.max(report.receivedAt, windowEndMs), report.receivedAt + MAX_OPEN_MS);
  return lastMs + GRACE_MS;
}

export const MAX_OPEN_WITH_GRACE_MS = MAX_OPEN_MS + GRACE_MS;

/** Clock difference above which an event may belong to a closed report. It is far less than `GRACE_MS`. */
export const MAX_CLOCK_SKEW_MS = 5 * 60 * 1000;

/** Returns the ids of the events that the report names, with the source of each event. `inline` has precedence over `named`. */
export function namedEventsOf(
  report: Pick<ReportLink, 'inlineEventIds' | 'eventIds'>,
): Map<string, Exclude<LinkSource, 'session'>> {
  const sources = new Map<string, Exclude<LinkSource, 'session'>>();
  for (const id of report.inlineEventIds) sources.set(id, 'inline');
  for (const id of report.eventIds) if (!sources.has(id)) sources.set(id, 'named');
  return sources;
}
