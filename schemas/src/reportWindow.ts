/**
 * The one rule that decides whether an event belongs to a report of its session. Ingest uses it for its answers, the
 * linker for the record. An event without a session belongs to none.
 */
import type { LinkSource } from './topics/linkedEvents.ts';
import { MAX_WINDOW_MS, type ReportLink } from './topics/reportLinks.ts';

/** Microseconds since the epoch, both ends inside. */
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

/** The time after its window for which a report waits for late events. */
export const GRACE_MS = 15 * 60 * 1000;
/**
 * The longest window, for a report whose clock is a day ahead. A window that ends later is matched until then, and
 * afterwards only for events off the clock.
 */
const MAX_OPEN_MS = 2 * MAX_WINDOW_MS;

/** Milliseconds since the epoch: when the linker looks the report up a last time and lets it go. */
export function closesAtMs(report: Timed): number {
  const windowEndMs = Number(windowOf(report).toMicros / 1000n) + 1;
  const lastMs = Math.min(Math.max(report.receivedAt, windowEndMs), report.receivedAt + MAX_OPEN_MS);
  return lastMs + GRACE_MS;
}

/** The longest time for which a report stays open after it was received. */
export const MAX_OPEN_WITH_GRACE_MS = MAX_OPEN_MS + GRACE_MS;

/**
 * An event whose clock differs from the server's by more may belong to a report that was let go long ago. Far less than
 * `GRACE_MS`, so that an event with a right clock finds its reports still open.
 */
export const MAX_CLOCK_SKEW_MS = 5 * 60 * 1000;

/** Every event that the report itself names, and how; `inline` wins over `named`. */
export function namedEventsOf(
  report: Pick<ReportLink, 'inlineEventIds' | 'eventIds'>,
): Map<string, Exclude<LinkSource, 'session'>> {
  const sources = new Map<string, Exclude<LinkSource, 'session'>>();
  for (const id of report.inlineEventIds) sources.set(id, 'inline');
  for (const id of report.eventIds) if (!sources.has(id)) sources.set(id, 'named');
  return sources;
}
