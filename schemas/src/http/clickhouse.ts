/**
 * Nodes of a ClickHouse cluster, the shard of each log partition, and the quorum of each shard, in the form of
 * `/admin/clickhouse`.
 */
import Type, { type Static } from 'typebox';
import { Nullable, Timestamp } from './fields.ts';

const Name = Nullable(
  Type.String({ description: 'Null: the node has not answered since the start of the process.' }),
);

export const ClickHouseNode = Type.Object({
  url: Type.String(),
  shard: Name,
  replica: Name,
  problem: Nullable(
    Type.String({ description: 'Problem, for example `does not answer`. Null: no problem was found.' }),
  ),
  queueLength: Nullable(
    Type.Integer({
      minimum: 0,
      description: 'Number of changes that the node has not applied yet. Null: the node does not answer.',
    }),
  ),
  lagSeconds: Nullable(
    Type.Integer({
      minimum: 0,
      description: 'Largest replication lag of a table. Null: the node does not answer.',
    }),
  ),
  hasKeeper: Nullable(
    Type.Boolean({
      description: 'True if all tables have a session of Keeper. Null: the node does not answer.',
    }),
  ),
});

export const PartitionShards = Type.Object({
  partition: Type.Integer({ minimum: 0 }),
  shard: Type.String({ description: 'Shard of new events.' }),
  takesEffectAt: Nullable(Timestamp),
  shards: Type.Array(Type.String(), { description: 'Shards that can have events of the partition.' }),
});

export const PartitionMove = Type.Object({
  partitions: Type.Array(Type.Integer({ minimum: 0 }), { minItems: 1, maxItems: 1_000 }),
  shard: Type.String({
    minLength: 1,
    description: 'Value of the macro `{shard}` on the nodes of the shard.',
  }),
});

export const ShardQuorum = Type.Object({
  shard: Type.String(),
  replicas: Type.Integer({ minimum: 1 }),
  quorum: Type.Integer({ minimum: 1, description: 'Number of replicas that must have an event.' }),
  takesEffectAt: Nullable(Timestamp),
});

export const QuorumChange = Type.Object({
  shard: Type.String({
    minLength: 1,
    description: 'Value of the macro `{shard}` on the nodes of the shard.',
  }),
  quorum: Type.Integer({ minimum: 1, maximum: 2, description: '1 lowers the quorum, and 2 restores it.' }),
});

export type ClickHouseNode = Static<typeof ClickHouseNode>;
export type PartitionShards = Static<typeof PartitionShards>;
export type PartitionMove = Static<typeof PartitionMove>;
export type ShardQuorum = Static<typeof ShardQuorum>;
