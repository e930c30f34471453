/**
 * Reports the size, the number of parts, and the deduplication window of each table. If a partition has many parts, ClickHouse delays inserts into it and
 * then rejects them. In a cluster, one replica of each shard is read, and each metric is the largest of the values that were
 * read.
 */
import { runPeriodically } from '@questlog/runtime/process/waiting';
import type { OperationsContext } from './context.ts';

const INTERVAL_MS = 30_000;

type TableSizes = Record<'table' | 'parts' | 'bytes', string>;

const PARTS = `SELECT table, max(parts) AS parts, sum(bytes) AS bytes FROM (
  SELECT table, partition_id, count() AS parts, sum(bytes_on_disk) AS bytes FROM system.parts
  WHERE active AND database = currentDatabase() GROUP BY table, partition_id
) GROUP BY table`;
const WINDOWS = `SELECT name AS table, toUInt32OrZero(extract(engine_full, 'deduplication_window = (\\\\d+)')) AS inserts
  FROM system.tables WHERE database = currentDatabase() AND inserts > 0`;

/** Periodically measures the data parts of each ClickHouse table. Returns a function that stops the measurements. */
export function watchParts({
  store,
  metrics,
}: Pick<OperationsContext, 'store' | 'metrics'>): () => Promise<void> {
  const { partitionParts, tableBytes, deduplicationWindow } = metrics;
  const reset = (): void => {
    for (const gauge of [partitionParts, tableBytes, deduplicationWindow]) gauge.reset();
  };
  const count = async (): Promise<void> => {
    // A shard that does not answer must not hide the parts of the other shards.
    const perShard = await Promise.allSettled(
      (store.shards?.() ?? [store]).map((shard) => shard.query<TableSizes>(PARTS)),
    );
    const failures = perShard.flatMap((shard) => (shard.status === 'rejected' ? [shard.reason] : []));
    if (failures.length === perShard.length) throw failures[0];
    const sizes = perShard.flatMap((shard) => (shard.status === 'fulfilled' ? shard.value : []));
    const windows = await store.query<{ table: string; inserts: number }>(WINDOWS);
    // Removes the values of tables that have no parts any more.
    reset();
    for (const { table, inserts } of windows) deduplicationWindow.set({ table }, inserts);
    for (const [table, ofTable] of Map.groupBy(sizes, (size) => size.table)) {
      partitionParts.set({ table }, Math.max(...ofTable.map(({ parts }) => Number(parts))));
      tableBytes.set({ table }, Math.max(...ofTable.map(({ bytes }) => Number(bytes))));
    }
  };
  // Without ClickHouse, or without the right to read `system.parts`, the metrics have no values.
  return runPeriodically(count, { everyMs: INTERVAL_MS }, reset);
}
