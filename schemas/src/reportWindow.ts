/** Decides whether an event belongs to a report of its session. Ingest and the linker use the same rule. */
import type { LinkSource } from './topics/linkedEvents.ts';
import { MAX_WINDOW_MS, type ReportLink } from './topics/reportLinks.ts';

/** Time range in microseconds since the epoch, including its first and last microsecond. */
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

export const GRACE_MS = 15 * 60 * 1000;
/**
 * Maximum time from the receipt of a report until its grace period starts. In the grace period, the linker waits for late
 * events.
 */
const MAX_OPEN_MS = 2 * MAX_WINDOW_MS;

/**
 * Returns the time of a report's final lookup in milliseconds since the epoch. After this lookup, the linker closes the report.
 */
export function closesAtMs(report: Timed): number {
  const windowEndMs = Number(windowOf(report).toMicros / 1000n) + 1;
  const lastMs = Math.min(Math.max(report.receivedAt, windowEndMs), report.receivedAt + MAX_OPEN_MS);
  return lastMs + GRACE_MS;
}

export const MAX_OPEN_WITH_GRACE_MS = MAX_OPEN_MS + GRACE_MS;

/** If the time of an event and the server's time differ by more than this, the linker also searches closed reports. */
export const MAX_CLOCK_SKEW_MS = 5 * 60 * 1000;

/** Returns the event ids that are listed in a report. The link source is `inline` if the report contains the whole event. */
export function namedEventsOf(
  report: Pick<ReportLink, 'inlineEventIds' | 'eventIds'>,
): Map<string, Exclude<LinkSource, 'session'>> {
  const sources = new Map<string, Exclude<LinkSource, 'session'>>();
  for (const id of report.inlineEventIds) sources.set(id, 'inline');
  for (const id of report.eventIds) if (!sources.has(id)) sources.set(id, 'named');
  return sources;
}
