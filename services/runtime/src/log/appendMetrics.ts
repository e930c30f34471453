/** Measures the calls of `log.append`. */
import { type MetricsRegistry, TracedHistogram, type TraceId } from '../process/metrics.ts';
import type { Log } from './log.ts';

export function appendMetrics(registry: MetricsRegistry, tracing?: TraceId) {
  return new TracedHistogram(registry, tracing, {
    name: 'questlog_log_append_duration_seconds',
    help: 'Time until an append was durable or failed. Appends in transactions of the linker are not included.',
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
  });
}

/** Replaces `log.append` by a function that also measures the time of each append. */
export function measureAppends(log: Pick<Log, 'append'>, seconds: TracedHistogram): void {
  const append = log.append.bind(log);
  log.append = (...records) => {
    const startedMs = performance.now();
    const observe = (): void => seconds.observeInTrace({}, (performance.now() - startedMs) / 1000);
    const appending = append(...records);
    // Returns the original promise, because a further promise would delay the response by a turn of the event loop.
    appending.then(observe, observe);
    return appending;
  };
}
