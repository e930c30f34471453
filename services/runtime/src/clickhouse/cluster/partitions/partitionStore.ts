/** Reads and writes the rows of one log partition, which can be on several shards after a move of the partition. */
import type { Store } from '../../store.ts';
import { isSharded } from '../clusterReads.ts';
import { type ReplicaSet, tablesIn } from '../quorumStore.ts';

export interface PartitionStores {
  /** Returns the store of each shard that has or had the partition. */
  readonly history: () => readonly [Store, ...Store[]];
  /** Returns the store of the shard that gets new rows. */
  readonly current: () => Store;
  /** Store for tables that all nodes have. */
  readonly wholeTables: Store;
  readonly tablesOf: ReplicaSet['tablesOf'];
}

/**
 * Tables whose rows ClickHouse merges if their sorting keys are equal. The first shard of the partition gets all these rows,
 * because ClickHouse does not merge rows of different shards.
 */
const MERGED: ReadonlySet<string> = new Set(['erased_events']);

/**
 * Returns a store for one log partition. Statements that read sharded tables run on each shard of the partition's history, and
 * a query returns the rows of all these shards. Statements without a table, for example a query of mutations, run on the same
 * shards. All nodes have the rows of the other tables.
 */
export function partitionStore({ history, current, wholeTables, tablesOf }: PartitionStores): Store {
  const usesShards = (text: string): boolean => {
    const tables = tablesIn(text, tablesOf);
    return tables.length === 0 || isSharded(tables);
  };
  return {
    ...wholeTables,
    query: async (sql, ...more) => {
      if (!usesShards(sql)) return await wholeTables.query(sql, ...more);
      return (await Promise.all(history().map((shard) => shard.query<never>(sql, ...more)))).flat();
    },
    command: async (sql) => {
      for (const store of usesShards(sql) ? history() : [wholeTables]) await store.command(sql);
    },
    insert: async (insert) => {
      const shard = MERGED.has(insert.table) ? history()[0] : current();
      await (usesShards(insert.table) ? shard : wholeTables).insert(insert);
    },
  };
}
