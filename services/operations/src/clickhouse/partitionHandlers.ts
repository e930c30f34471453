/** Lists the shards of the log partitions on a ClickHouse cluster, and moves partitions to another shard. */
import type { ListedPartition } from '@questlog/runtime/clickhouse/cluster/partitions/shardAssignments';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { Handlers } from '@questlog/runtime/http/routes';
import type { Log } from '@questlog/runtime/log/log';
import type { PartitionShards } from '@questlog/schemas/http/clickhouse';
import type { CLICKHOUSE } from '@questlog/schemas/http/operations/clickhouse';
import { TOPICS } from '@questlog/schemas/topics/topics';

export function partitionHandlers(
  store: Pick<Store, 'partitionShards' | 'movePartitions' | 'nodes'>,
  log: Pick<Log, 'partitionCount'>,
): Handlers<Pick<typeof CLICKHOUSE, 'listPartitionShards' | 'movePartitions'>> {
  return {
    listPartitionShards: async () => {
      const { partitionShards = notACluster() } = store;
      await partitionShards.refresh();
      const partitions = await log.partitionCount(TOPICS.events);
      return Array.from({ length: partitions }, (_, partition) => outputOf(partitionShards.of(partition)));
    },
    movePartitions: async (_, { body: { partitions, shard } }) => {
      const { movePartitions = notACluster() } = store;
      const count = await log.partitionCount(TOPICS.events);
      const unknown = partitions.find((partition) => partition >= count);
      if (unknown !== undefined)
        throw new Rejected('not_found', `there is no partition ${unknown}; the log has ${count} partitions`);
      const shards = new Set(store.nodes?.().map((node) => node.shard));
      // The shard of a node that has not answered is unknown. The move then fails, because it needs all nodes.
      if (!shards.has(shard) && !shards.has(undefined))
        throw new Rejected('not_found', `CLICKHOUSE_URL has no node of shard ${shard}`);
      return (await movePartitions(partitions, shard)).map(outputOf);
    },
  };
}

function notACluster(): never {
  throw new Rejected('not_found', 'ClickHouse is not a cluster');
}

function outputOf({ partition, lastShard, takesEffectAtMs, shards }: ListedPartition): PartitionShards {
  const takesEffectAt = takesEffectAtMs === 0 ? null : new Date(takesEffectAtMs).toISOString();
  return { partition, shard: lastShard, takesEffectAt, shards: [...shards] };
}
