/** Warnings about times that probably come from a wrong clock or have a wrong zone. The times are stored as sent. Pure. */
import type { UnknownField } from './unknownFields.ts';

/**
 * Warning about a time that is more than 5 minutes ahead of the server, before 2015, or without a zone. A time without a zone
 * counts as UTC.
 */
export type TimeWarning = 'time_ahead' | 'time_before_2015' | 'time_without_zone';

/** A valid time that a client sent. */
export interface SentTime extends UnknownField {
  readonly text: string;
  /** Microseconds since the epoch. */
  readonly micros: bigint;
}

/** Returns a list with the time in a field of a body that is one object. The list is empty if the field has no time. */
export function sentTime(field: string, text: string | undefined, micros: bigint | null): SentTime[] {
  return text === undefined || micros === null ? [] : [{ index: 0, pointer: `/${field}`, text, micros }];
}

export interface SkewedTime extends UnknownField {
  readonly code: TimeWarning;
  /** Seconds ahead of the server's clock. Negative if the time is behind the clock. */
  readonly skewSeconds: number;
}

/** Maximum time that a client's clock can be ahead of the server's clock without a warning. */
const MAX_AHEAD_MS = 5 * 60 * 1000;
const MICROS_OF_2015 = Date.UTC(2015, 0, 1) * 1000;

/** True if times between `earliest` and `latest` may need a warning. These limits are in microseconds since the epoch. */
export function isSkewed(earliest: number, latest: number, nowMs: number): boolean {
  return latest > (nowMs + MAX_AHEAD_MS) * 1000 || earliest < MICROS_OF_2015;
}

export function skewedTimes(times: readonly SentTime[], nowMs: number): SkewedTime[] {
  return times.flatMap(({ index, pointer, text, micros }) => {
    const at = Number(micros);
    const code = warningOf(text, at, nowMs);
    return code === undefined
      ? []
      : [{ index, pointer, code, skewSeconds: Math.round(at / 1e6 - nowMs / 1e3) }];
  });
}

function warningOf(text: string, micros: number, nowMs: number): TimeWarning | undefined {
  if (micros < MICROS_OF_2015) return 'time_before_2015';
  if (!hasZone(text)) return 'time_without_zone';
  return isSkewed(micros, micros, nowMs) ? 'time_ahead' : undefined;
}

/** True if the time has a zone. After the date and its separator, these characters occur only in a zone. */
function hasZone(text: string): boolean {
  return /[zZ+-]/.test(text.slice(11));
}

/** Returns a header with an item of RFC 9651: the largest skew in seconds, its code, and the number of times with a warning. */
export function skewHeader(skewed: readonly SkewedTime[]): Record<string, string> {
  const [first, ...others] = skewed;
  if (first === undefined) return {};
  const { skewSeconds, code } = others.reduce(
    (most, one) => (Math.abs(one.skewSeconds) > Math.abs(most.skewSeconds) ? one : most),
    first,
  );
  return { 'Questlog-Clock-Skew': `${skewSeconds};code=${code};times=${skewed.length}` };
}
