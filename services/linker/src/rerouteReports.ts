/** Moves bug reports out of newly added partitions of the topic, because the linker does not read these partitions. */
import { openDeadLetters } from '@questlog/runtime/consumer/deadLetters';
import type { ServiceDeps } from '@questlog/runtime/consumer/serviceDeps';
import {
  type Batch,
  type Consumer,
  type LogRecord,
  LogTruncated,
  type OwnedPartition,
  RecordTooLarge,
} from '@questlog/runtime/log/log';
import { Fenced, Invalid, messageOf } from '@questlog/runtime/process/errors';
import { Failure, type RetryOptions, retry, runPeriodically } from '@questlog/runtime/process/waiting';
import { partitionOf } from '@questlog/schemas/partition';
import { REROUTE_GROUP, TOPICS } from '@questlog/schemas/topics/topics';

export interface Rerouter {
  readonly failed: Promise<never>;
  stop(): Promise<void>;
}

type RerouterDeps = Pick<ServiceDeps, 'log' | 'registry' | 'clock' | 'logger'>;

const CHECK_INTERVAL_MS = 30_000;
const READ_OPTIONS = { maxRecords: 500, maxBytes: 1024 * 1024, waitMs: 1_000 } as const;
const TOPIC = TOPICS.reportLinks;

export function startRerouting(deps: RerouterDeps, checkIntervalMs = CHECK_INTERVAL_MS): Rerouter {
  const { log, logger } = deps;
  const failure = new Failure();
  let current: { readonly partitions: number; readonly consumer: Consumer } | undefined;
  const checkPartitions = async (signal: AbortSignal): Promise<void> => {
    const partitions = (await log.addedPartitions()).find(({ topic }) => topic === TOPIC)?.partitions;
    if (partitions === undefined || partitions === current?.partitions || signal.aborted) return;
    await current?.consumer.stop();
    current = undefined;
    const reroute = await openRerouting(deps);
    const consumer = await log.consume({
      ...{ group: REROUTE_GROUP, topics: [TOPIC], partitions: 'added' },
      process: reroute,
    });
    consumer.failed.catch(failure.fail);
    current = { partitions, consumer };
  };
  const stopChecks = runPeriodically(checkPartitions, { everyMs: checkIntervalMs }, (error) =>
    logger.warn('added_partitions_unknown', { cause: messageOf(error) }),
  );
  return {
    failed: failure.failed,
    stop: async () => {
      await stopChecks();
      await current?.consumer.stop();
    },
  };
}

async function openRerouting(deps: RerouterDeps): Promise<(owned: OwnedPartition) => Promise<void>> {
  const { log, logger } = deps;
  const deadLettersFor = await openDeadLetters({ ...deps, group: REROUTE_GROUP });
  const partitions = await log.partitionCount(TOPIC);
  return async (owned) => {
    const { partition, signal } = owned;
    const deadLetters = deadLettersFor(signal);
    const patience: RetryOptions = {
      signal,
      onDelay: (cause, backoffMs) =>
        logger.error('carrying_delayed', cause, { topic: TOPIC, partition, backoffMs }),
    };
    const reroute = async (record: LogRecord): Promise<void> => {
      const { key, value, headers } = record;
      try {
        await log.append(TOPIC, partitionOf(key ?? '', 0, partitions), [{ key, value, headers }]);
        deadLetters.countProcessed(1);
      } catch (error) {
        // A record that the producer compressed can exceed the topic's limit after decompression.
        if (!(error instanceof RecordTooLarge)) throw error;
        const cause = new Invalid('the record is larger than the topic allows', { cause: error });
        await deadLetters.send({ topic: TOPIC, partition }, record, cause, true);
      }
    };
    const next = async (): Promise<void> => {
      const batch = await nextBatch(owned);
      if (batch === undefined) return;
      const { records, nextOffset } = batch;
      await retry(() => Promise.all(records.map(reroute)), patience);
      await retry(() => owned.commit(TOPIC, { offset: nextOffset, metadata: '' }), patience);
      if (records.length > 0)
        logger.info('reports_carried_home', { topic: TOPIC, partition, records: records.length });
    };
    try {
      while (!signal.aborted) await next();
    } catch (error) {
      if (!(error instanceof Fenced || signal.aborted)) throw error;
    }
  };
}

/**
 * Returns the next batch, or undefined after a truncation. After a truncation, the next call reads the remaining records. No
 * participant is informed, because rerouting keeps no data of records in memory.
 */
async function nextBatch(owned: OwnedPartition): Promise<Batch | undefined> {
  try {
    return await owned.read(READ_OPTIONS);
  } catch (error) {
    if (error instanceof LogTruncated) return undefined;
    throw error;
  }
}
