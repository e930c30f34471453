/** Adds up the metrics of the games' listener. */

import type { Exposition } from '@questlog/runtime/process/metrics';
import type { TrafficOutput } from '@questlog/schemas/http/health';
import { GAMES } from '@questlog/schemas/http/operations/games';
import { routeOf } from '@questlog/schemas/http/operations/operation';

type Metrics = Awaited<ReturnType<Exposition['getMetricsAsJSON']>>;
type Labels = Readonly<Partial<Record<string, string | number>>>;

/**
 * Route of the stream of linked events. Its requests stay open for a long time. They are not counted, because they would
 * distort the statistics of response times.
 */
const { path: STREAM } = routeOf(GAMES.streamLinkedEvents);

/** @param metrics - the metrics of all workers */
export function trafficOf(metrics: Metrics): Omit<TrafficOutput, 'at'> {
  const sum = (name: string, isWanted: (labels: Labels) => boolean = () => true): number =>
    valuesOf(metrics, name).reduce((all, { labels, value }) => all + (isWanted(labels) ? value : 0), 0);
  const answered = (status: string): number =>
    sum(
      'questlog_http_requests_total',
      (labels) => isOfGame(labels) && String(labels['status']).startsWith(status),
    );
  return {
    servesGames: metrics.some(({ name }) => name === 'questlog_events_accepted_total'),
    events: sum('questlog_events_accepted_total'),
    requests: answered(''),
    rejected: answered('4'),
    errors: answered('5'),
    durations: durationsOf(metrics),
    deadLetters: sum('questlog_dead_letters_open'),
    memoryBytes: sum('process_resident_memory_bytes'),
  };
}

function durationsOf(metrics: Metrics): TrafficOutput['durations'] {
  const buckets = new Map<number, number>();
  for (const { labels, value } of valuesOf(metrics, 'questlog_http_request_duration_seconds')) {
    if (labels['le'] === undefined || !isOfGame(labels)) continue;
    const seconds = labels['le'] === '+Inf' ? Number.POSITIVE_INFINITY : Number(labels['le']);
    buckets.set(seconds, (buckets.get(seconds) ?? 0) + value);
  }
  return [...buckets]
    .sort(([a], [b]) => a - b)
    .map(([seconds, requests]) => ({
      atMostSeconds: Number.isFinite(seconds) ? seconds : null,
      requests,
    }));
}

function valuesOf(metrics: Metrics, name: string) {
  return metrics.filter((metric) => metric.name === name).flatMap(({ values }) => values);
}

function isOfGame({ route }: Labels): boolean {
  return String(route).startsWith('/v1/') && route !== STREAM;
}
