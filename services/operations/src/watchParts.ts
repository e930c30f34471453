/**
 * Reports the size and the number of parts of each table. If a partition has many parts, ClickHouse delays inserts into it and
 * then rejects them.
 */
import type { OperationsContext } from './context.ts';

const INTERVAL_MS = 30_000;

const PARTS = `SELECT table, max(parts) AS parts, sum(bytes) AS bytes FROM (
  SELECT table, partition_id, count() AS parts, sum(bytes_on_disk) AS bytes FROM system.parts
  WHERE active AND database = currentDatabase() GROUP BY table, partition_id
) GROUP BY table`;

/** Periodically measures the data parts of each ClickHouse table. Returns a function that stops the measurements. */
export function watchParts(
  { store, metrics }: Pick<OperationsContext, 'store' | 'metrics'>,
  intervalMs = INTERVAL_MS,
): () => void {
  const count = async (): Promise<void> => {
    const tables = await store.query<Record<'table' | 'parts' | 'bytes', string>>(PARTS);
    for (const { table, parts, bytes } of tables) {
      metrics.partitionParts.set({ table }, Number(parts));
      metrics.tableBytes.set({ table }, Number(bytes));
    }
  };
  // Without ClickHouse, or without the right to read `system.parts`, the metrics have no values.
  const countOnce = () =>
    void count().catch(() => {
      metrics.partitionParts.reset();
      metrics.tableBytes.reset();
    });
  const timer = setInterval(countOnce, intervalMs);
  countOnce();
  return () => clearInterval(timer);
}
