/** Tests the traces of one process with a real OpenTelemetry Collector. */
import { expect, onTestFinished, test } from 'vitest';
import { change } from '../e2e/erasing.ts';
import { removeDataDir, startProduct } from '../e2e/product.ts';
import { logLinesOf } from '../logLines.ts';
import { findCollector, startCollector } from './collector.ts';
import { checkTraces, tracedEnvironment } from './tracedRequests.ts';

const { program = '', lack } = findCollector();
if (lack !== undefined) console.log(`skipped: this test needs the OpenTelemetry Collector; ${lack}`);

/** A bucket with an exemplar, of each histogram that has exemplars. */
const BUCKETS = [
  'questlog_http_request_duration_seconds_bucket{le="[\\d.]+",route="/v1/ingest/events"}',
  'questlog_log_append_duration_seconds_bucket{le="[\\d.]+"}',
  'questlog_clickhouse_insert_duration_seconds_bucket{le="[\\d.]+",table="events"}',
];

test.skipIf(lack !== undefined)(
  'a trace leads from a metric, a log line, and a request to the insert, without data of players',
  async () => {
    const collector = await startCollector(program);
    onTestFinished(collector.stop);
    const product = await startProduct({ env: tracedEnvironment(collector) });
    onTestFinished(async () => {
      await product.stop();
      await removeDataDir(product);
    });
    await checkTraces(product, collector, { ingest: 'questlog', linker: 'questlog', projector: 'questlog' });
    const accept = 'application/openmetrics-text; version=1.0.0';
    const metrics = await fetch(`${product.credentials.adminUrl}/metrics`, { headers: { accept } });
    const text = await metrics.text();
    const traceIds = collector.spans().map((span) => span.traceId);
    for (const bucket of BUCKETS) {
      const line = new RegExp(`^${bucket} \\d+ # \\{trace_id="(.{32})"\\} [\\d.]+ [\\d.]+$`, 'm');
      expect(traceIds, bucket).toContain(line.exec(text)?.[1]);
    }
    expect(product.stderr()).not.toContain('traces_not_exported');
    const failedTraceId = 'f'.repeat(32);
    await change(product, 'RENAME TABLE builds TO builds_away');
    const headers = { traceparent: `00-${failedTraceId}-00f067aa0ba902b7-01` };
    const answer = await product.request('GET', '/v1/builds', { headers });
    expect(answer.status).toBe(500);
    const isFailure = ({ event }: { readonly event?: unknown }) => event === 'request_failed';
    await expect.poll(() => product.stderr()).toMatch(/"request_failed".*\n/);
    expect(logLinesOf(product.stderr()).find(isFailure)).toMatchObject({
      ...{ level: 'error', bug: true, trace_id: failedTraceId, causes: expect.any(Array) },
      ...{ requestId: answer.headers.get('X-Request-Id'), stack: expect.any(String) },
    });
  },
);
