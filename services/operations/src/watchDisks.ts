/** Reports the use of the fullest disk of ClickHouse, and of the fullest disk of the Kafka brokers. */
import type { Disk } from '@questlog/runtime/log/log';
import { runPeriodically } from '@questlog/runtime/process/waiting';
import type { OperationsContext } from './context.ts';

const INTERVAL_MS = 30_000;

const DISKS = `SELECT toFloat64(total_space) AS totalBytes, toFloat64(free_space) AS freeBytes FROM system.disks`;

type DiskContext = Pick<OperationsContext, 'store' | 'log' | 'metrics'>;

/** Periodically measures the disks. Returns a function that stops the measurements. */
export function watchDisks({ store, log, metrics }: DiskContext): () => Promise<void> {
  const watch = (resource: string, read: () => Promise<readonly Disk[]>): (() => Promise<void>) => {
    let fullest: Disk | undefined;
    metrics.resources.add({
      resource,
      get limit() {
        return fullest?.totalBytes ?? 0;
      },
      used: () => fullest && fullest.totalBytes - fullest.freeBytes,
    });
    const measure = async (): Promise<void> => {
      fullest = fullestOf(await read());
    };
    // Without an answer, or without the permission to read the disks, the use is unknown.
    return runPeriodically(measure, { everyMs: INTERVAL_MS }, () => {
      fullest = undefined;
    });
  };
  const stops = [
    watch('clickhouse_disk_bytes', () => disksOf(store)),
    watch('kafka_disk_bytes', async () => (await log.disks?.()) ?? []),
  ];
  return async () => void (await Promise.all(stops.map((stop) => stop())));
}

/** Returns the disks of the nodes that answer, because another node's disk can be full while one node is down. */
async function disksOf(store: OperationsContext['store']): Promise<Disk[]> {
  const nodes = store.nodes?.().flatMap((node) => node.store ?? []) ?? [store];
  const answers = await Promise.allSettled(nodes.map((node) => node.query<Disk>(DISKS)));
  return answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
}

function fullestOf(disks: readonly Disk[]): Disk | undefined {
  const freeShare = ({ totalBytes, freeBytes }: Disk): number => freeBytes / totalBytes;
  // Servers report no size for some disks, for example for object storage.
  const measured = disks.filter(({ totalBytes }) => totalBytes > 0);
  return measured.toSorted((a, b) => freeShare(a) - freeShare(b))[0];
}
