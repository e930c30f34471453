/** Tests the exemplars of the duration of HTTP requests. */
import { expect, test } from 'vitest';
import { createMetricsRegistry, exemplarsOf, toOpenMetrics } from '../process/metrics.ts';
import { httpMetrics } from './metrics.ts';

test('in OpenMetrics, a bucket has the id of the newest traced request', async () => {
  const registry = createMetricsRegistry();
  let traceId: string | undefined;
  const { observeSeconds, requestSeconds } = httpMetrics(registry, { traceId: () => traceId });
  for (const id of ['a1', 'b2', undefined]) {
    traceId = id;
    observeSeconds('/a', 0.003);
  }
  const text = toOpenMetrics(await registry.metrics(), await exemplarsOf(requestSeconds));
  expect(text).toContain('_bucket{le="0.0025",route="/a"} 0\n');
  expect(text).toMatch(/_bucket\{le="0.005",route="\/a"\} 3 # \{trace_id="b2"\} 0.003 [\d.]+\n/);
  expect(text).toContain('_bucket{le="0.01",route="/a"} 3\n');
});
