/** Log partitions and their shards of a ClickHouse cluster, in the form of `/admin/clickhouse`. */
import Type, { type Static } from 'typebox';
import { Nullable, Timestamp } from './fields.ts';

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

export type PartitionShards = Static<typeof PartitionShards>;
export type PartitionMove = Static<typeof PartitionMove>;
