/** Moves log partitions between the shards of a ClickHouse cluster, and lowers and restores the quorums of shards. */
import type { ListedPartition } from '@questlog/runtime/clickhouse/cluster/partitions/shardAssignments';
import type { QuorumList } from '@questlog/runtime/clickhouse/cluster/quorums/quorumList';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { Handlers } from '@questlog/runtime/http/routes';
import type { Log } from '@questlog/runtime/log/log';
import type { PartitionShards, ShardQuorum } from '@questlog/schemas/http/clickhouse';
import type { CLICKHOUSE } from '@questlog/schemas/http/operations/clickhouse';
import { TOPICS } from '@questlog/schemas/topics/topics';

export function clusterHandlers(
  store: Pick<Store, 'partitionShards' | 'movePartitions' | 'shardQuorums' | 'changeQuorum' | 'nodes'>,
  log: Pick<Log, 'partitionCount'>,
): Handlers<Omit<typeof CLICKHOUSE, 'listClickHouseNodes'>> {
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
    listShardQuorums: async () => {
      const { shardQuorums = notACluster() } = store;
      await shardQuorums.refresh();
      return quorumsOf(shardQuorums);
    },
    changeShardQuorum: async (_, { body: { shard, quorum } }) => {
      const { shardQuorums = notACluster(), changeQuorum = notACluster() } = store;
      const replicas = quorumsOf(shardQuorums).find((each) => each.shard === shard)?.replicas;
      if (replicas === undefined)
        throw new Rejected(
          'not_found',
          `no node of shard ${shard} has answered since the start of operations`,
        );
      if (quorum > replicas)
        throw new Rejected(
          'invalid_request',
          `quorum: shard ${shard} has ${replicas} replica, so the quorum must be at most ${replicas}`,
        );
      await changeQuorum(shard, quorum);
      return quorumsOf(shardQuorums);
    },
  };
}

function quorumsOf(quorums: QuorumList): ShardQuorum[] {
  return quorums.list().map(({ takesEffectAtMs, ...quorum }) => ({
    ...quorum,
    takesEffectAt: timeOf(takesEffectAtMs),
  }));
}

function timeOf(atMs: number): string | null {
  return atMs === 0 ? null : new Date(atMs).toISOString();
}

function notACluster(): never {
  throw new Rejected('not_found', 'ClickHouse is not a cluster');
}

function outputOf({ partition, lastShard, takesEffectAtMs, shards }: ListedPartition): PartitionShards {
  return { partition, shard: lastShard, takesEffectAt: timeOf(takesEffectAtMs), shards: [...shards] };
}
