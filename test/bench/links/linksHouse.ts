/** Starts log, engine, projector, and linker in this process, on a temporary directory. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { LINKER_BOUNDS } from '@questlog/linker/core/linkerState';
import { startLinker } from '@questlog/linker/linker';
import { linkerMetrics } from '@questlog/linker/metrics';
import { projectorMetrics } from '@questlog/projector/metrics';
import { startProjector } from '@questlog/projector/projector';
import { startEmbeddedClickHouse } from '@questlog/runtime/clickhouse/chdb/embeddedClickHouse';
import { openMigrated } from '@questlog/runtime/clickhouse/migrate';
import { NO_ERASURES } from '@questlog/runtime/consumer/serviceDeps';
import { openEmbeddedLog } from '@questlog/runtime/log/embedded/embeddedLog';
import type { Log } from '@questlog/runtime/log/log';
import { systemClock } from '@questlog/runtime/process/clock';
import { createHealth } from '@questlog/runtime/process/health';
import { createLogger } from '@questlog/runtime/process/logger';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { topicDefinitions } from '@questlog/schemas/topics/topics';

export const PARTITIONS = 4;

const MIGRATIONS = fileURLToPath(new URL('../../../deploy/clickhouse', import.meta.url));
const ACCESS = { username: 'bench', password: 'bench', database: 'questlog' };
/** Flush interval of the embedded mode. */
const FLUSH_INTERVAL_MS = 500;
const MAX_CONCURRENT_QUERIES = 8;

export type LinksHouse = Awaited<ReturnType<typeof openLinksHouse>>;

export async function openLinksHouse() {
  const directory = mkdtempSync(join(tmpdir(), 'questlog-bench-links-'));
  const clock = systemClock;
  const log = await openEmbeddedLog({ directory: join(directory, 'log'), clock });
  const server = await startEmbeddedClickHouse({
    directory: join(directory, 'clickhouse'),
    maxConcurrentQueries: MAX_CONCURRENT_QUERIES,
    ...ACCESS,
  });
  const store = await openMigrated({ url: server.url, ...ACCESS }, MIGRATIONS);
  await log.ensureTopics(topicDefinitions(PARTITIONS));
  const registry = await openLogRegistry(log);
  const figures = createMetricsRegistry();
  const metrics = { ...linkerMetrics(figures), ...projectorMetrics(figures) };
  const logger = createLogger('bench');
  const shared = {
    log,
    store,
    registry,
    clock,
    metrics,
    logger,
    health: createHealth(),
    erased: NO_ERASURES,
  };
  const stops: (() => Promise<void>)[] = [];
  return {
    log,
    store,
    registry,
    metrics,
    startProjector: async () => {
      const projector = await startProjector({ ...shared, flushIntervalMs: FLUSH_INTERVAL_MS });
      projector.failed.catch(endWith);
      stops.push(() => projector.stop());
    },
    startLinker: async () => {
      const linker = await startLinker({ ...shared, bounds: LINKER_BOUNDS });
      stops.push(() => linker.stop());
    },
    close: async () => {
      for (const stop of stops.toReversed()) await stop();
      await store.close();
      await server.close();
      await log.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** Ends the benchmark if a part fails. */
function endWith(error: unknown): void {
  setImmediate(() => {
    throw error;
  });
}

/** True if each group has processed its whole topic. */
export async function areConsumed(
  log: Log,
  pairs: readonly (readonly [group: string, topic: string])[],
): Promise<boolean> {
  for (const [group, topic] of pairs) {
    const [ends, committed] = [await log.endOffsets(topic), await log.committed(group, topic)];
    if (ends.some((end, partition) => end > (committed[partition]?.offset ?? 0))) return false;
  }
  return true;
}
