/** Tests the traces of one process with a real OpenTelemetry Collector. */
import { expect, onTestFinished, test } from 'vitest';
import { removeDataDir, startProduct } from '../e2e/product.ts';
import { findCollector, startCollector } from './collector.ts';
import { checkTraces, tracedEnvironment } from './tracedRequests.ts';

const { program = '', lack } = findCollector();
if (lack !== undefined) console.log(`skipped: this test needs the OpenTelemetry Collector; ${lack}`);

const EXEMPLAR =
  /^questlog_http_request_duration_seconds_bucket\{le="[\d.]+",route="\/v1\/ingest\/events"\} \d+ # \{trace_id="([0-9a-f]{32})"\} [\d.]+ [\d.]+$/m;

test.skipIf(lack !== undefined)(
  'a trace leads from a metric and a request to the insert, without data of players',
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
    const traceId = EXEMPLAR.exec(await metrics.text())?.[1];
    expect(collector.spans().map((span) => span.traceId)).toContain(traceId);
    expect(product.stderr()).not.toContain('traces_not_exported');
  },
);
