/** Operations on the nodes and shards of a ClickHouse cluster. */
import Type from 'typebox';
import { ClickHouseNode, PartitionMove, PartitionShards, QuorumChange, ShardQuorum } from '../clickhouse.ts';
import type { Operations } from './operation.ts';
import { answer, NOT_THERE } from './parts.ts';

export const CLICKHOUSE = {
  listClickHouseNodes: {
    route: 'GET /admin/clickhouse/nodes',
    summary: 'Lists the nodes of a ClickHouse cluster with their state. The list is empty without a cluster.',
    responses: { 200: answer('The nodes.', Type.Array(ClickHouseNode)) },
  },
  listPartitionShards: {
    route: 'GET /admin/clickhouse/partitions',
    summary: 'Lists the shards of the log partitions on a ClickHouse cluster.',
    responses: { 200: answer('The partitions.', Type.Array(PartitionShards)), 404: NOT_THERE },
  },
  movePartitions: {
    route: 'POST /admin/clickhouse/moves',
    summary: 'Moves log partitions to another shard of a ClickHouse cluster. Stored events are not moved.',
    body: PartitionMove,
    responses: { 200: answer('The moved partitions.', Type.Array(PartitionShards)), 404: NOT_THERE },
  },
  listShardQuorums: {
    route: 'GET /admin/clickhouse/quorums',
    summary: 'Lists how many replicas of each shard of a ClickHouse cluster must have an event.',
    responses: { 200: answer('The quorums.', Type.Array(ShardQuorum)), 404: NOT_THERE },
  },
  changeShardQuorum: {
    route: 'POST /admin/clickhouse/quorums',
    summary: 'Lowers or restores the quorum of a shard of a ClickHouse cluster.',
    body: QuorumChange,
    responses: { 200: answer('The quorums of all shards.', Type.Array(ShardQuorum)), 404: NOT_THERE },
  },
} as const satisfies Operations;
