/** Reports the use of the fullest disk of ClickHouse. In a cluster, the disks of all nodes count. */
import { onEachNode } from '@questlog/runtime/clickhouse/cluster/eachNode';
import { runPeriodically } from '@questlog/runtime/process/waiting';
import type { OperationsContext } from './context.ts';

const INTERVAL_MS = 30_000;

const FULLEST = `SELECT toFloat64(total_space - free_space) AS used, toFloat64(total_space) AS total FROM system.disks
  WHERE total_space > 0 ORDER BY used / total DESC LIMIT 1`;

interface Disk {
  readonly used: number;
  readonly total: number;
}

/** Periodically measures the disks of ClickHouse. Returns a function that stops the measurements. */
export function watchDisks({
  store,
  metrics,
}: Pick<OperationsContext, 'store' | 'metrics'>): () => Promise<void> {
  let fullest: Disk | undefined;
  metrics.resources.add({
    resource: 'clickhouse_disk_bytes',
    get limit() {
      return fullest?.total ?? 0;
    },
    used: () => fullest?.used,
  });
  const measure = async (): Promise<void> => {
    const disks = (await onEachNode(store, (node) => node.query<Disk>(FULLEST))).flat();
    [fullest] = disks.toSorted((a, b) => b.used / b.total - a.used / a.total);
  };
  // Without ClickHouse, or without the right to read `system.disks`, the use is unknown.
  return runPeriodically(measure, { everyMs: INTERVAL_MS }, () => {
    fullest = undefined;
  });
}
