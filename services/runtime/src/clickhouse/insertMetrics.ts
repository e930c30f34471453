/** Measures inserts into ClickHouse. */
import { type MetricsRegistry, TracedHistogram, type TraceId } from '../process/metrics.ts';
import type { Store } from './store.ts';

export function insertMetrics(registry: MetricsRegistry, tracing?: TraceId) {
  return new TracedHistogram(registry, tracing, {
    name: 'questlog_clickhouse_insert_duration_seconds',
    help: 'Time until ClickHouse has stored the rows of an insert, or the insert failed.',
    labelNames: ['table'],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
  });
}

/** Returns a store that measures its inserts. */
export function measureInserts(store: Store, seconds: TracedHistogram): Store {
  const { forPartition } = store;
  return {
    ...store,
    ...(forPartition && { forPartition: (...of) => measureInserts(forPartition(...of), seconds) }),
    insert: async (insert) => {
      const startedMs = performance.now();
      const { table } = insert;
      const observe = (): void => seconds.observeInTrace({ table }, (performance.now() - startedMs) / 1000);
      await store.insert(insert).finally(observe);
    },
  };
}
