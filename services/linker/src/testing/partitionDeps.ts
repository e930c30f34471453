/**
 * Dependencies of a linker's partition for tests. The codecs use a schema registry in the log, and ClickHouse never answers.
 */
import type { Store } from '@questlog/runtime/clickhouse/store';
import { openDeadLetters } from '@questlog/runtime/consumer/deadLetters';
import type { Log } from '@questlog/runtime/log/log';
import { systemClock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { createHealth } from '@questlog/runtime/process/health';
import { silentLogger } from '@questlog/runtime/process/logger';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { createCodec } from '@questlog/runtime/registry/registry';
import { ALL_VISIBLE } from '@questlog/schemas/erased';
import { eventsInBytes } from '@questlog/schemas/topics/eventsRecord';
import { linkedEvents } from '@questlog/schemas/topics/linkedEvents';
import { linkerState } from '@questlog/schemas/topics/linkerState';
import { reportLinks } from '@questlog/schemas/topics/reportLinks';
import { GROUPS } from '@questlog/schemas/topics/topics';
import { LINKER_BOUNDS } from '../core/linkerState.ts';
import type { PartitionDeps } from '../deps.ts';
import { sharedDeps } from '../linker.ts';
import { linkerMetrics } from '../metrics.ts';

const isSilent = async (): Promise<never> => {
  throw new Unavailable('ClickHouse is silent');
};

export const silentStore: Store = {
  database: 'questlog',
  query: isSilent,
  queryRaw: isSilent,
  stream: isSilent,
  command: isSilent,
  insert: isSilent,
  insertsEndWithinMs: 0,
  ping: async () => false,
  close: async () => {},
};

/** @param log a log in which each topic has one partition */
export async function partitionDeps(log: Log): Promise<PartitionDeps> {
  const registry = await openLogRegistry(log);
  const deps = {
    log,
    registry,
    store: silentStore,
    clock: systemClock,
    logger: silentLogger,
    metrics: linkerMetrics(createMetricsRegistry()),
    health: createHealth(),
    visible: ALL_VISIBLE,
    bounds: LINKER_BOUNDS,
  };
  return {
    ...deps,
    ...sharedDeps(deps),
    codecs: {
      events: await createCodec(registry, eventsInBytes),
      reports: await createCodec(registry, reportLinks),
      links: await createCodec(registry, linkedEvents),
      state: await createCodec(registry, linkerState),
    },
    partitions: 1,
    deadLettersFor: await openDeadLetters({ ...deps, group: GROUPS.link }),
    activePartitions: new Map(),
  };
}
