/** Moves log partitions to another shard. New events go to the new shard, and older events stay where they are. */
import { Unavailable } from '../../../process/errors.ts';
import type { Store } from '../../store.ts';
import { onEachNode } from '../eachNode.ts';
import { PARTITION_SHARDS, quoted } from '../tables/clusterSchema.ts';
import type { ListedPartition, ShardAssignments } from './shardAssignments.ts';

export interface MoveDeps {
  /** Name of the cluster in `remote_servers`. */
  readonly cluster: string;
  readonly store: Pick<Store, 'query' | 'command' | 'nodes' | 'insertsEndWithinMs'>;
  readonly assignments: ShardAssignments;
}

/**
 * Adds one row per partition to `partition_shards`, unless the partition is already on the shard. The moves take effect after
 * `insertsEndWithinMs`, so that all services know the moves before the new shard gets rows.
 * @throws Unavailable if a node does not answer or cannot query the shard, because queries on this node would lack events
 */
export async function movePartitions(
  { cluster, store, assignments }: MoveDeps,
  partitions: readonly number[],
  shard: string,
): Promise<ListedPartition[]> {
  await requireShard(store, cluster, shard);
  await assignments.refresh();
  const moves = [...new Set(partitions)]
    .map((partition) => assignments.of(partition))
    .filter(({ lastShard }) => lastShard !== shard)
    .map(({ partition, lastVersion }) => `(${partition}, ${lastVersion + 1})`);
  if (moves.length > 0) {
    await store.command(
      `INSERT INTO ${PARTITION_SHARDS} (log_partition, version, shard, takes_effect_at)
       SELECT move.1, move.2, ${quoted(shard)}, now64(3) + toIntervalMillisecond(${store.insertsEndWithinMs})
       FROM (SELECT arrayJoin([${moves.join(', ')}]) AS move)`,
    );
    await assignments.refresh();
  }
  return partitions.map((partition) => assignments.of(partition));
}

/** Requires that each node has the tables and can query the shard. */
async function requireShard(store: MoveDeps['store'], cluster: string, shard: string): Promise<void> {
  await onEachNode(store, async (node) => {
    // Throws `Unavailable` if the node has no tables.
    await node.query('SELECT 1 FROM appends LIMIT 1');
    const shards = await node.query<{ shard: string }>(
      `SELECT DISTINCT getMacro('shard') AS shard FROM cluster(${quoted(cluster)}, system.one)`,
    );
    if (!shards.some((each) => each.shard === shard))
      throw new Unavailable(`has no shard ${shard} in remote_servers; restart the node with the new list`);
  });
}
