/** Assigns the partitions of the log to the shards of a new cluster. */
import { StartRefused, Unavailable } from '../../../process/errors.ts';
import type { ClusterNode, ClusterNodes } from '../clusterNodes.ts';
import { syncTables } from '../quorumStore.ts';
import { PARTITION_SHARDS, quoted } from '../tables/clusterSchema.ts';

/** Number of log partitions that get a shard. `QUESTLOG_PARTITIONS` cannot be larger. */
const PARTITIONS = 1_000;

/**
 * Assigns log partitions to shards at the first start. Concurrent starts insert equal rows.
 * @throws StartRefused if no node has rows and a node does not answer, because that node may have rows.
 * @throws Unavailable if a node has not fetched all rows.
 */
export async function assignPartitions(
  { nodes, unavailable }: ClusterNodes,
  database: string,
): Promise<void> {
  const table = `${database}.${PARTITION_SHARDS}`;
  const assignedPartitions = async ({ store }: ClusterNode): Promise<number> => {
    const [row] = await store.query<{ partitions: string }>(
      `SELECT uniqExact(log_partition) AS partitions FROM ${table}`,
    );
    return Number(row?.partitions);
  };
  const countOnEachNode = async (): Promise<number[]> => await Promise.all(nodes.map(assignedPartitions));
  const sync = async (): Promise<void> => {
    await Promise.all(nodes.map(({ store }) => syncTables(store, [table])));
  };
  const isAssigned = async (): Promise<boolean> => (await countOnEachNode()).some((count) => count > 0);
  if (await isAssigned()) return;
  if (unavailable.length > 0)
    throw new StartRefused(
      `ClickHouse: no partition has a shard yet, which needs every node; these cannot be used: ${unavailable.join(', ')}`,
    );
  await sync();
  if (await isAssigned()) return;
  const shards = [...new Set(nodes.map(({ shard }) => shard))].sort().map(quoted);
  const [{ store }] = nodes;
  // The insert has no deduplication token. With a token, ClickHouse would store nothing if an earlier insert had the same
  // token, even if the rows of the earlier insert are lost.
  await store.command(
    `INSERT INTO ${table} (log_partition, shard) SETTINGS insert_quorum = 'auto', insert_quorum_timeout = 10000
     SELECT number, [${shards.join(', ')}][number % ${shards.length} + 1] FROM numbers(${PARTITIONS})`,
  );
  await sync();
  if ((await countOnEachNode()).some((count) => count !== PARTITIONS))
    throw new Unavailable(`ClickHouse: not every node has the rows of ${table}`);
}
