/** Finds the time range of the links that expired behind the position of a client that comes back. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Log } from '@questlog/runtime/log/log';
import type { Clock } from '@questlog/runtime/process/clock';
import { withinLimit } from '@questlog/runtime/process/waiting';
import { TOPICS } from '@questlog/schemas/topics/topics';
import type { Gap } from './core/linkedEventText.ts';
import type { StreamPosition } from './core/linkedEventToken.ts';

export interface GapDeps {
  readonly log: Log;
  readonly store: Pick<Store, 'query'>;
  readonly clock: Clock;
}

export interface GapAt {
  readonly projectId: string;
  /** The position that the client came with; 'start' if nobody can read it. */
  readonly position: StreamPosition | 'start';
  /** Per partition, the offset from which the stream goes on. */
  readonly offsets: readonly number[];
  /** Partitions in which records behind the position have expired. */
  readonly partitions: readonly number[];
}

/** A stream is not held up for longer: the time range is wider then. */
const LIMIT_MS = 2_000;

/** The range begins with the last link before the position, and ends with the first record that is kept. */
export async function gapBehind(deps: GapDeps, at: GapAt): Promise<Gap> {
  const [fromMs, toMs] = await Promise.all([lastLinkBefore(deps, at), firstKept(deps, at)]);
  return { fromMs, toMs };
}

/** Undefined if ClickHouse does not know it or does not answer. */
async function lastLinkBefore({ log, store }: GapDeps, at: GapAt): Promise<number | undefined> {
  const { projectId, position } = at;
  if (position === 'start' || position.logId !== log.id) return undefined;
  const sql = `SELECT count() AS links, toUnixTimestamp64Milli(max(changed_at)) AS lastMs FROM report_link_versions
    WHERE project_id = {projectId:UUID} AND log_id = {logId:UUID} AND state IN ('linked', 'retracted')
      AND log_offset < arrayElement({nextOffsets:Array(UInt64)}, log_partition + 1)`;
  const asked = { projectId, logId: position.logId, nextOffsets: position.nextOffsets };
  const found = store.query<{ links: string; lastMs: string }>(sql, asked).catch(() => []);
  const [row] = await withinLimit(found, LIMIT_MS, () => []);
  return row === undefined || Number(row.links) === 0 ? undefined : Number(row.lastMs);
}

/** Returns the time of the first record that is kept, of the partition where it is latest; now if a partition keeps none. */
async function firstKept({ log, clock }: GapDeps, { offsets, partitions }: GapAt): Promise<number> {
  const times = new Map<number, number>();
  const [isFound, isOver] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const tail = await log.tail({
    topic: TOPICS.linkedEvents,
    from: offsets,
    partitions,
    // Held until all are found: nothing more is read.
    onBatch: ({ partition, records: [first] }) => {
      if (first === undefined) return;
      times.set(partition, first.timestampMs);
      if (times.size === partitions.length) isFound.resolve();
      return isOver.promise;
    },
  });
  const ends = await log.endOffsets(TOPICS.linkedEvents);
  const isEmpty = partitions.some((partition) => (offsets[partition] ?? 0) >= (ends[partition] ?? 0));
  const failed = tail.failed.catch(() => undefined);
  if (!isEmpty) await withinLimit(Promise.race([isFound.promise, failed]), LIMIT_MS, () => undefined);
  isOver.resolve();
  await tail.close();
  return times.size === partitions.length ? Math.max(...times.values()) : clock.now();
}
