/** Tests traces through the processes of a deployment on Kafka with a real OpenTelemetry Collector. */
import { describeKafka } from '@questlog/runtime/log/kafka/testing/engines';
import { onTestFinished, test } from 'vitest';
import { findCollector, startCollector } from '../monitoring/collector.ts';
import { checkTraces, tracedEnvironment } from '../monitoring/tracedRequests.ts';
import { Deployment } from './deployment.ts';

const { program = '', lack } = findCollector();
if (lack !== undefined) console.log(`skipped: this test needs the OpenTelemetry Collector; ${lack}`);

describeKafka('traces', (engines) => {
  test.skipIf(lack !== undefined)(
    'lead through the headers of Kafka records to the other processes',
    async () => {
      const collector = await startCollector(program);
      onTestFinished(collector.stop);
      const deployment = new Deployment(engines, tracedEnvironment(collector));
      onTestFinished(() => deployment.remove());
      const [ingest] = await deployment.startAll('ingest', 'operations', 'linker', 'projector');
      if (ingest === undefined) throw new Error('ingest did not start');
      await checkTraces(ingest, collector, {
        ingest: 'questlog-ingest',
        linker: 'questlog-linker',
        projector: 'questlog-projector',
      });
    },
  );
});
