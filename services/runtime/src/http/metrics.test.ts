/** Tests the exemplars of the duration of HTTP requests. */
import { expect, test } from 'vitest';
import { createMetricsRegistry, exemplarsOf, toOpenMetrics } from '../process/metrics.ts';
import { httpMetrics } from './metrics.ts';
import { recordRequest } from './problems.ts';

test('in OpenMetrics, a bucket has the id of the newest traced request', async () => {
  const registry = createMetricsRegistry();
  let traceId: string | undefined;
  const metrics = httpMetrics(registry, { traceId: () => traceId });
  const request = { startedMs: performance.now() - 5_000_000, method: 'POST', status: 201 };
  for (const id of ['a1', 'b2', undefined]) {
    traceId = id;
    recordRequest(metrics, request, '/a');
  }
  const text = toOpenMetrics(await registry.metrics(), await exemplarsOf([metrics.requestSeconds]));
  expect(text).toContain('_bucket{le="10",route="/a"} 0\n');
  expect(text).toMatch(/_bucket\{le="\+Inf",route="\/a"\} 3 # \{trace_id="b2"\} 500\d\.\d+ [\d.]+\n/);
});
