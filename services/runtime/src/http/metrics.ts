/** Defines the Prometheus metrics of HTTP requests. All listeners of a process share these metrics. */
import { Counter } from 'prom-client';
import {
  keepDeprecatedName,
  type MetricsRegistry,
  TracedHistogram,
  type TraceId,
} from '../process/metrics.ts';

export type HttpMetrics = ReturnType<typeof httpMetrics>;

export function httpMetrics(registry: MetricsRegistry, tracing?: TraceId) {
  const registers = [registry];
  const requestSeconds = new TracedHistogram(registry, tracing, {
    name: 'questlog_http_request_duration_seconds',
    help: 'Time from the request line to the last byte of the response.',
    labelNames: ['route'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
  });
  const metrics = {
    requestSeconds,
    requests: new Counter({
      name: 'questlog_http_requests_total',
      help: 'Requests that were answered.',
      labelNames: ['route', 'method', 'status'],
      registers,
    }),
    rateLimited: new Counter({
      name: 'questlog_rate_limited_total',
      help: 'Rejections by limit: rejected events for limits on events, and rejected requests for other limits and for suspensions.',
      labelNames: ['limit'],
      registers,
    }),
  };
  keepDeprecatedName(
    metrics.rateLimited,
    {
      ...{ name: 'questlog_rejects_by_limit_total', labelNames: ['limit'] },
      replacement: 'questlog_rate_limited_total',
    },
    registers,
  );
  return metrics;
}
