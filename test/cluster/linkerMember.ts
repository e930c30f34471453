/** Runs a linker on the Kafka of a deployment as a separate process, with a ClickHouse that does not answer. */
import { LINKER_BOUNDS } from '@questlog/linker/core/linkerState';
import { startLinker } from '@questlog/linker/linker';
import { linkerMetrics } from '@questlog/linker/metrics';
import { silentStore } from '@questlog/linker/testing/partitionDeps';
import { openKafkaLog } from '@questlog/runtime/log/kafka/kafkaLog';
import { systemClock } from '@questlog/runtime/process/clock';
import { createHealth } from '@questlog/runtime/process/health';
import { silentLogger } from '@questlog/runtime/process/logger';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { ALL_VISIBLE } from '@questlog/schemas/erased';

const [brokers = '', prefix = ''] = process.argv.slice(2);
const connection = { brokers: brokers.split(','), clientId: 'questlog-tests' };
const log = await openKafkaLog({ connection, prefix, replicationFactor: -1, logger: silentLogger });
const linker = await startLinker({
  log,
  registry: await openLogRegistry(log),
  store: silentStore,
  clock: systemClock,
  logger: silentLogger,
  health: createHealth(),
  visible: ALL_VISIBLE,
  metrics: linkerMetrics(createMetricsRegistry()),
  bounds: LINKER_BOUNDS,
});
await linker.failed;
