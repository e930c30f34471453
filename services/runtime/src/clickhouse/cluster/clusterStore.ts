/**
 * Opens the store of a ClickHouse cluster. Writes use a quorum of replicas. The rows of a log partition are on one shard, which
 * the table `partition_shards` names. Other queries read any node that has all committed rows.
 */
import { Unavailable } from '../../process/errors.ts';
import type { Logger } from '../../process/logger.ts';
import { type NodeStore, openStore, type Store, type StoreOptions } from '../store.ts';
import { type Member, type Members, openMembers, quorumOf } from './clusterMembers.ts';
import type { ClusterOptions } from './clusterNodes.ts';
import { isSharded, openClusterReads } from './clusterReads.ts';
import { localName, PARTITION_SHARDS, withLocalNames } from './clusterSchema.ts';
import { quorumStore, type ReplicaSet, readsRows, syncTables, tablesIn } from './quorumStore.ts';
import { readTables, type StoredTable } from './tableState.ts';

/**
 * Settings of all requests. An insert ends within `insertsEndWithinMs`, because ClickHouse waits 10 s for a quorum and does not
 * repeat requests to Keeper. `SYSTEM SYNC REPLICA` waits for `receive_timeout`. A query fails if a shard is unavailable. If a
 * subquery reads all shards, each shard gets the whole result of the subquery.
 */
const SETTINGS = {
  insert_quorum_parallel: 1,
  insert_quorum_timeout: 10_000,
  insert_keeper_max_retries: 0,
  receive_timeout: 10,
  skip_unavailable_shards: 0,
  distributed_product_mode: 'global',
};

/** Opens the store after `migrateCluster` has created the tables. @throws Unavailable if no node answers. */
export async function openClusterStore(
  options: ClusterOptions,
  database: string,
  logger: Pick<Logger, 'warn'>,
  open: (options: StoreOptions) => Store = openStore,
): Promise<Store> {
  const members = await openMembers({ options, settings: SETTINGS, logger, open });
  try {
    return await storeOf(members, options, database, logger);
  } catch (error) {
    await members.close();
    throw error;
  }
}

async function storeOf(
  members: Members,
  { name, nodes }: ClusterOptions,
  database: string,
  logger: Pick<Logger, 'warn'>,
): Promise<Store> {
  const { store: first } = members.first;
  const { insertsEndWithinMs } = first;
  const tablesOf = tablesByName(await readTables(first, database), database);
  const wholeTables = quorumStore({
    ...{ name: `the cluster ${name}`, isShard: false, database, tablesOf, insertsEndWithinMs },
    quorum: quorumOf(nodes.length),
    get replicas() {
      return members.joined().map(({ store }) => store);
    },
  });
  const replicasOf = (shard: string) => members.joined().filter((member) => member.shard === shard);
  const shardStore = (shard: string): Store =>
    quorumStore({
      ...{ name: `shard ${shard}`, isShard: true, database, tablesOf, insertsEndWithinMs },
      get quorum() {
        return quorumOf(Math.max(1, ...replicasOf(shard).map(({ replicas }) => replicas)));
      },
      get replicas() {
        return replicasOf(shard).map((member) => member.shardStore);
      },
    });
  const assignments = await wholeTables.query<{ partition: number; shard: string }>(
    `SELECT log_partition AS partition, shard FROM ${PARTITION_SHARDS} FINAL`,
  );
  const shardOf = new Map(assignments.map(({ partition, shard }) => [partition, shard]));
  const shards = [...new Set(shardOf.values())];
  const shardStores = new Map(shards.map((shard) => [shard, shardStore(shard)]));
  const partitionStores = new Map(
    [...shardStores].map(([shard, store]) => [shard, partitionStore(store, wholeTables, tablesOf)]),
  );
  const reads = openClusterReads({
    ...{ name, size: nodes.length, shards, tablesOf, logger },
    members: members.joined,
  });
  return {
    ...wholeTables,
    query: (sql, ...more) => reads.run(sql, (node) => node.query(sql, ...more)),
    stream: (sql, ...more) => reads.run(sql, (node) => node.stream(sql, ...more)),
    command: (sql) =>
      readsRows(sql) ? reads.run(sql, (node) => node.command(sql)) : wholeTables.command(sql),
    quorum: wholeTables,
    nodes: () => nodes.map((address) => nodeAt(address, members.joined(), tablesOf)),
    shards: () => [...shardStores.values()],
    forPartition: (partition) => {
      const store = partitionStores.get(shardOf.get(partition) ?? '');
      if (store === undefined) throw new Unavailable(`ClickHouse: partition ${partition} has no shard`);
      return store;
    },
    close: async () => {
      reads.close();
      await members.close();
    },
  };
}

/**
 * Returns a store for one log partition: a shard has the rows of sharded tables, and all nodes have the rows of the other
 * tables. The shard gets statements without a table, for example a query of its mutations.
 */
function partitionStore(shard: Store, wholeTables: Store, tablesOf: ReplicaSet['tablesOf']): Store {
  const storeFor = (text: string): Store => {
    const tables = tablesIn(text, tablesOf);
    return tables.length === 0 || isSharded(tables) ? shard : wholeTables;
  };
  return {
    ...shard,
    query: (sql, ...more) => storeFor(sql).query(sql, ...more),
    command: (sql) => storeFor(sql).command(sql),
    insert: (insert) => storeFor(insert.table).insert(insert),
  };
}

function nodeAt(
  address: StoreOptions,
  joined: readonly Member[],
  tablesOf: ReplicaSet['tablesOf'],
): NodeStore {
  const member = joined.find((one) => one.address === address);
  if (member === undefined) return { name: address.url, shard: undefined, store: undefined };
  const { shard, replica } = member;
  return {
    ...{ name: `${address.url} (${replica} of shard ${shard})`, shard },
    store: nodeStore(member.store, tablesOf),
  };
}

/** Returns a store for the tables of one node. Before a read, the node fetches all parts that Keeper lists for the tables. */
function nodeStore(store: Store, tablesOf: ReplicaSet['tablesOf']): Store {
  return {
    ...{ ...store, localName },
    query: async (sql, ...more) => {
      const localSql = withLocalNames(sql);
      await syncTables(store, tablesIn(localSql, tablesOf));
      return await store.query(localSql, ...more);
    },
    command: (sql) => store.command(withLocalNames(sql)),
  };
}

/** Returns the replicated tables that each table or view reads. */
function tablesByName(tables: readonly StoredTable[], database: string): Map<string, readonly string[]> {
  const byName = new Map(tables.map((table) => [table.name, table]));
  const read = (name: string): string[] => {
    const { engine = '', select = '' } = byName.get(name) ?? {};
    if (engine.startsWith('Replicated')) return [name];
    // The engine of a Distributed table names the view that it reads.
    const shardView = /^Distributed\('[^']*', '[^']*', '(?<view>\w+)'/.exec(engine)?.groups?.['view'];
    if (shardView !== undefined) return read(shardView);
    return [...select.matchAll(/\b(\w+)\.(\w+)/g)].flatMap(([, qualifier, table = '']) =>
      qualifier === database ? read(table) : [],
    );
  };
  return new Map(tables.map(({ name }) => [name, [...new Set(read(name))]]));
}
