/** Reports the number of active parts, because ClickHouse delays and then rejects inserts into a partition with many parts. */
import type { OperationsContext } from './context.ts';

const INTERVAL_MS = 30_000;

const PARTS = `SELECT table, toUInt32(max(parts)) AS parts FROM (
  SELECT table, partition_id, count() AS parts FROM system.parts
  WHERE active AND database = currentDatabase() GROUP BY table, partition_id
) GROUP BY table`;

/** Counts the parts periodically. Returns a function that stops the counts. */
export function watchParts(
  { store, metrics }: Pick<OperationsContext, 'store' | 'metrics'>,
  intervalMs = INTERVAL_MS,
): () => void {
  const count = async (): Promise<void> => {
    const tables = await store.query<{ table: string; parts: number }>(PARTS);
    for (const { table, parts } of tables) metrics.partitionParts.set({ table }, parts);
  };
  // Without ClickHouse, or without the right to read `system.parts`, the metric has no values.
  const countOnce = () => void count().catch(() => metrics.partitionParts.reset());
  const timer = setInterval(countOnce, intervalMs);
  countOnce();
  return () => clearInterval(timer);
}
