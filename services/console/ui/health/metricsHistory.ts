/** Computes rates from two responses of `GET /metrics`, and keeps the rates of the last ten minutes. */
import { increase, type Labels, quantile, type Sample, total } from './prometheus.ts';

export interface Scrape {
  readonly atMs: number;
  readonly samples: readonly Sample[];
}

export interface Rates {
  readonly atMs: number;
  readonly events: number;
  readonly requests: number;
  /** Number of responses per second that have a 5xx status. */
  readonly errors: number;
  /** Number of responses per second that have a 4xx status. */
  readonly rejected: number;
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
}

export const HISTORY_MS = 10 * 60 * 1000;
/** Route of the stream of linked events. Request rates exclude this route, because its requests stay open for a long time. */
const STREAM = '/v1/linked-events';

export function ratesBetween(before: Scrape, after: Scrape): Rates {
  const seconds = (after.atMs - before.atMs) / 1000;
  const rate = (name: string, isWanted?: (labels: Labels) => boolean): number =>
    increase(total(before.samples, name, isWanted) ?? 0, total(after.samples, name, isWanted) ?? 0) / seconds;
  const answers = (begin: string) => (labels: Labels) =>
    isGameRoute(labels) && (labels['status'] ?? '').startsWith(begin);
  const millis = (q: number): number | null => {
    const scrapes = [before.samples, after.samples] as const;
    const found = quantile(q, scrapes, 'questlog_http_request_duration_seconds', isGameRoute);
    return found === undefined ? null : found * 1000;
  };
  return {
    atMs: after.atMs,
    events: rate('questlog_events_accepted_total'),
    requests: rate('questlog_http_requests_total', isGameRoute),
    errors: rate('questlog_http_requests_total', answers('5')),
    rejected: rate('questlog_http_requests_total', answers('4')),
    p50Ms: millis(0.5),
    p99Ms: millis(0.99),
  };
}

function isGameRoute({ route = '' }: Labels): boolean {
  return route.startsWith('/v1/') && route !== STREAM;
}

export function appendToHistory<T extends { readonly atMs: number }>(history: readonly T[], next: T): T[] {
  return [...history.filter(({ atMs }) => atMs > next.atMs - HISTORY_MS), next];
}
