/**
 * When an event belongs to a report of its session: the one rule, used by ingest for its answers and by the linker for
 * the record. An event without a session belongs to none.
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

/** How long after its window a report waits for what is still on its way. */
export const GRACE_MS = 15 * 60 * 1000;
/**
 * The longest window, for a report whose clock is a day ahead. A window that ends later still is matched until then, and
 * after it for events off the clock only.
 */
const MAX_OPEN_MS = 2 * MAX_WINDOW_MS;

/** Milliseconds since the epoch: when the linker looks a last time and lets the report go. */
export function closesAtMs(report: Timed): number {
  const windowEndMs = Number(windowOf(report).toMicros / 1000n) + 1;
  const lastMs = Math.min(Math.max(report.receivedAt, windowEndMs), report.receivedAt + MAX_OPEN_MS);
  return lastMs + GRACE_MS;
}

/** No report is open for longer after it was received. */
export const MAX_OPEN_WITH_GRACE_MS = MAX_OPEN_MS + GRACE_MS;

/**
 * An event's clock and the server's differ by more: it may belong to a report that was let go long ago. Less than
 * `GRACE_MS` by far, so that an event that is not off the clock finds its reports still open.
 */
export const OFF_CLOCK_MS = 5 * 60 * 1000;

/** Every event that the report names itself, with the way it does; `inline` goes before `named`. */
export function namedEventsOf(
  report: Pick<ReportLink, 'inlineEventIds' | 'eventIds'>,
): Map<string, Exclude<LinkSource, 'session'>> {
  const sources = new Map<string, Exclude<LinkSource, 'session'>>();
  for (const id of report.inlineEventIds) sources.set(id, 'inline');
  for (const id of report.eventIds) if (!sources.has(id)) sources.set(id, 'named');
  return sources;
}
