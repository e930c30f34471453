/** Tests that the metrics of a table end when ClickHouse does not report the table any more. */
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { expect, onTestFinished, test } from 'vitest';
import { operationsMetrics } from './metrics.ts';
import { watchParts } from './watchParts.ts';

test.each([
  { name: 'a dropped table', query: async () => [] },
  { name: 'a ClickHouse that does not answer', query: () => Promise.reject(new Error('does not answer')) },
])('removes the values of $name', async ({ query }) => {
  const registry = createMetricsRegistry();
  const metrics = operationsMetrics(registry);
  const gauges = [metrics.partitionParts, metrics.tableBytes, metrics.deduplicationWindow];
  for (const gauge of gauges) gauge.set({ table: 'dropped' }, 1);
  onTestFinished(watchParts({ store: { query } as never, metrics }));
  await expect.poll(() => registry.metrics()).not.toContain('dropped');
});

test('has the values of a shard while another shard does not answer', async () => {
  const registry = createMetricsRegistry();
  const metrics = operationsMetrics(registry);
  const answering = { query: async () => [{ table: 'events', parts: '901', bytes: '7' }] };
  const silent = { query: () => Promise.reject(new Error('does not answer')) };
  const store = { query: async () => [], shards: () => [silent, answering] };
  onTestFinished(watchParts({ store: store as never, metrics }));
  await expect.poll(() => registry.metrics()).toContain('partition_parts{table="events"} 901');
});
