/** Creates warnings about times that suggest a wrong clock or a wrong time zone. Questlog stores these times unchanged. */
import type { UnknownField } from '@questlog/runtime/http/core/unknownFields';

/** Warning about a time: more than 5 minutes in the future, before 2015, or without a time zone. */
export type TimeWarning = 'time_ahead' | 'time_before_2015' | 'time_without_zone';

export interface SentTime extends UnknownField {
  readonly text: string;
  readonly micros: bigint;
}

/** Returns a list that contains the time of a field. The list is empty if the field has no valid time. */
export function sentTime(field: string, text: string | undefined, micros: bigint | null): SentTime[] {
  return text === undefined || micros === null ? [] : [{ index: 0, pointer: `/${field}`, text, micros }];
}

export interface SkewedTime extends UnknownField {
  readonly code: TimeWarning;
  /** Number of seconds by which the time is ahead of the server's clock. Negative for a time in the past. */
  readonly skewSeconds: number;
}

const MAX_AHEAD_MS = 5 * 60 * 1000;
const MICROS_OF_2015 = Date.UTC(2015, 0, 1) * 1000;

/** True if the latest time is over five minutes in the future, or the earliest is before 2015. Both are in microseconds. */
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

function hasZone(text: string): boolean {
  return /[zZ+-]/.test(text.slice(11));
}

/**
 * Returns a response header (RFC 9651) with the largest clock skew in seconds, and with the number of timestamps that caused a
 * warning.
 */
export function skewHeader(skewed: readonly SkewedTime[]): Record<string, string> {
  const [first, ...others] = skewed;
  if (first === undefined) return {};
  const { skewSeconds, code } = others.reduce(
    (most, one) => (Math.abs(one.skewSeconds) > Math.abs(most.skewSeconds) ? one : most),
    first,
  );
  return { 'Questlog-Clock-Skew': `${skewSeconds};code=${code};times=${skewed.length}` };
}
