/** Finds the time range of the linked events that expired while a client was disconnected. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Log } from '@questlog/runtime/log/log';
import type { Clock } from '@questlog/runtime/process/clock';
import { withinLimit } from '@questlog/runtime/process/waiting';
import { TOPICS } from '@questlog/schemas/topics/topics';
import type { IngestContext } from '../context.ts';
import type { Gap } from './core/linkedEventText.ts';
import type { StreamPosition } from './core/streamId.ts';

export interface GapRequest {
  readonly projectId: string;
  /** Position of the reconnecting client. The value is `start` if the client's message id cannot be decrypted. */
  readonly position: StreamPosition | 'start';
  readonly offsets: readonly number[];
  /** Partitions in which records after the client's position have expired. */
  readonly partitions: readonly number[];
}

const TIME_LIMIT_MS = 2_000;

export async function findGap(
  { log, store, clock }: Pick<IngestContext, 'log' | 'store' | 'clock'>,
  at: GapRequest,
): Promise<Gap> {
  const [fromMs, toMs] = await Promise.all([lastLinkMs(log, store, at), firstKeptMs(log, clock, at)]);
  return { fromMs, toMs };
}

/** Returns the time of the latest linked event before the client's position. Undefined if ClickHouse has no such event. */
async function lastLinkMs(log: Log, store: Store, at: GapRequest): Promise<number | undefined> {
  const { projectId, position } = at;
  if (position === 'start' || position.logId !== log.id) return undefined;
  const sql = `SELECT count() AS links, toUnixTimestamp64Milli(max(changed_at)) AS lastMs FROM report_link_versions
    WHERE project_id = {projectId:UUID} AND log_id = {logId:UUID} AND state IN ('linked', 'retracted')
      AND log_offset < arrayElement({nextOffsets:Array(UInt64)}, log_partition + 1)`;
  const parameters = { projectId, logId: position.logId, nextOffsets: position.nextOffsets };
  const rows = store.query<{ links: string; lastMs: string }>(sql, parameters).catch(() => []);
  const [row] = await withinLimit(rows, TIME_LIMIT_MS, () => []);
  return row === undefined || Number(row.links) === 0 ? undefined : Number(row.lastMs);
}

/**
 * Reads the first record of each partition. Returns the latest write time of these records. Returns the current time if a
 * partition is empty.
 */
async function firstKeptMs(log: Log, clock: Clock, { offsets, partitions }: GapRequest): Promise<number> {
  const times = new Map<number, number>();
  const [isFound, isDone] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const tail = await log.tail({
    topic: TOPICS.linkedEvents,
    from: offsets,
    partitions,
    // Returns a promise that delays further batches until the search ends.
    onBatch: ({ partition, records: [first] }) => {
      if (first === undefined) return;
      times.set(partition, first.timestampMs);
      if (times.size === partitions.length) isFound.resolve();
      return isDone.promise;
    },
  });
  const ends = await log.endOffsets(TOPICS.linkedEvents);
  const isEmpty = partitions.some((partition) => (offsets[partition] ?? 0) >= (ends[partition] ?? 0));
  const failed = tail.failed.catch(() => undefined);
  if (!isEmpty) await withinLimit(Promise.race([isFound.promise, failed]), TIME_LIMIT_MS, () => undefined);
  isDone.resolve();
  await tail.close();
  return times.size === partitions.length ? Math.max(...times.values()) : clock.now();
}
