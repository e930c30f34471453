/** Tests the traces of one process with a real OpenTelemetry Collector. */
import { expect, onTestFinished, test } from 'vitest';
import { removeDataDir, startProduct } from '../e2e/product.ts';
import { findCollector, startCollector } from './collector.ts';
import { checkTraces, tracedEnvironment } from './tracedRequests.ts';

const { program = '', lack } = findCollector();
if (lack !== undefined) console.log(`skipped: this test needs the OpenTelemetry Collector; ${lack}`);

test.skipIf(lack !== undefined)(
  'a trace leads from a request to the insert, without data of players',
  async () => {
    const collector = await startCollector(program);
    onTestFinished(collector.stop);
    const product = await startProduct({ env: tracedEnvironment(collector) });
    onTestFinished(async () => {
      await product.stop();
      await removeDataDir(product);
    });
    await checkTraces(product, collector, { ingest: 'questlog', linker: 'questlog', projector: 'questlog' });
    expect(product.stderr()).not.toContain('traces_not_exported');
  },
);
