/** Computes rates from two answers of `GET /admin/traffic`. */
import type { TrafficOutput } from '@questlog/schemas/http/health';

export interface Rates {
  readonly at: string;
  readonly events: number;
  readonly requests: number;
  /** Number of responses per second that have a 5xx status. */
  readonly errors: number;
  /** Number of responses per second that have a 4xx status. */
  readonly rejected: number;
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
}

export function ratesBetween(before: TrafficOutput, after: TrafficOutput): Rates {
  const seconds = (Date.parse(after.at) - Date.parse(before.at)) / 1000;
  const rate = (name: 'events' | 'requests' | 'errors' | 'rejected'): number =>
    increase(before[name], after[name]) / seconds;
  return {
    at: after.at,
    ...{ events: rate('events'), requests: rate('requests') },
    ...{ errors: rate('errors'), rejected: rate('rejected') },
    p50Ms: quantileMs(0.5, before, after),
    p99Ms: quantileMs(0.99, before, after),
  };
}

/** Returns the increase of a counter. A counter that became smaller was reset, so the increase is the new value. */
function increase(before: number, after: number): number {
  return after < before ? after : after - before;
}

/** Computes the same value as `histogram_quantile` of PromQL. Returns null if there were no new requests. */
function quantileMs(q: number, before: TrafficOutput, after: TrafficOutput): number | null {
  const earlier = new Map(before.durations.map(({ atMostSeconds, requests }) => [atMostSeconds, requests]));
  const buckets = after.durations.map(({ atMostSeconds, requests }) => ({
    atMostSeconds,
    requests: increase(earlier.get(atMostSeconds) ?? 0, requests),
  }));
  const rank = q * (buckets.at(-1)?.requests ?? 0);
  const at = buckets.findIndex(({ requests }) => requests >= rank);
  const upper = buckets[at];
  const lower = buckets[at - 1] ?? { atMostSeconds: 0, requests: 0 };
  if (rank === 0 || upper === undefined || lower.atMostSeconds === null) return null;
  const { atMostSeconds: end } = upper;
  const share = (rank - lower.requests) / (upper.requests - lower.requests);
  return 1000 * (lower.atMostSeconds + (end === null ? 0 : share * (end - lower.atMostSeconds)));
}
