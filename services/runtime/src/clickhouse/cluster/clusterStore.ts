/**
 * Opens the store of a ClickHouse cluster. Writes use a quorum of replicas. New rows of a log partition go to one shard, which
 * the table `partition_shards` names. Other queries read any node that has all committed rows.
 */
import { systemClock } from '../../process/clock.ts';
import { Unavailable } from '../../process/errors.ts';
import type { Logger } from '../../process/logger.ts';
import { runPeriodically } from '../../process/waiting.ts';
import { type NodeStore, openStore, type Store, type StoreOptions } from '../store.ts';
import { type Member, type Members, openMembers } from './clusterMembers.ts';
import type { ClusterOptions } from './clusterNodes.ts';
import { openClusterReads } from './clusterReads.ts';
import { movePartitions } from './partitions/movePartitions.ts';
import { PartitionShards } from './partitions/partitionShards.ts';
import { partitionStore } from './partitions/partitionStore.ts';
import { quorumStore, type ReplicaSet, readsRows, syncTables, tablesIn } from './quorumStore.ts';
import { changeQuorum } from './quorums/changeQuorum.ts';
import { quorumOf, ShardQuorums } from './quorums/shardQuorums.ts';
import { localName, withLocalNames } from './tables/clusterSchema.ts';
import { readTables, type StoredTable } from './tables/tableState.ts';

/**
 * Settings of all requests. An insert ends within `insertsEndWithinMs`, because ClickHouse waits 10 s for a quorum and does not
 * repeat requests to Keeper. `SYSTEM SYNC REPLICA` waits for `receive_timeout`. A query fails if a shard is unavailable, or if
 * ClickHouse knows that every replica of a shard is late. If a subquery reads all shards, each shard gets the whole result of the subquery.
 */
const SETTINGS = {
  insert_quorum_parallel: 1,
  insert_quorum_timeout: 10_000,
  insert_keeper_max_retries: 0,
  receive_timeout: 10,
  skip_unavailable_shards: 0,
  fallback_to_stale_replicas_for_distributed_queries: 0,
  distributed_product_mode: 'global',
};

/**
 * Interval in which the store reads the moves of partitions and the quorums of shards. A move takes effect much later than this
 * interval.
 */
const REFRESH_MS = 5_000;

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
  const tablesOf = await tablesOfMembers(members, database);
  const shared = { database, tablesOf, insertsEndWithinMs };
  const wholeTablesOf = allNodesStores(members, { ...shared, name: `the cluster ${name}` });
  const quorums = new ShardQuorums(
    wholeTablesOf(1, () => 1),
    members.joined,
    systemClock,
  );
  const quorum = () => quorums.ofAllNodes(nodes.length);
  const wholeTables = wholeTablesOf(quorumOf(nodes.length), quorum);
  const shardStore = shardStores(members, quorums, shared);
  const assignments = new PartitionShards(wholeTables, systemClock);
  // Reads the quorums first, because a quorum decides how many nodes must return equal assignments.
  await quorums.refresh();
  await assignments.refresh();
  const refresh = async (): Promise<void> => {
    // A process that cannot read the quorums must still learn of moves.
    await quorums.refresh().catch(() => {});
    await assignments.refresh();
  };
  const stopRefresh = runPeriodically(refresh, { firstMs: REFRESH_MS, everyMs: REFRESH_MS }, () => {});
  // Deletions also reach a shard whose first rows arrive before this process has read the move.
  const shards = () => [...new Set([...assignments.all(), ...members.joined().map(({ shard }) => shard)])];
  const nodeStores = () => nodes.map((address) => nodeAt(address, members.joined(), quorums, tablesOf));
  const reads = openClusterReads({
    ...{ name, database, size: nodes.length, tablesOf, logger },
    latestTablesOf: async (node) => tablesByName(await readTables(node, database), database),
    ...{ shards: () => assignments.all(), members: members.joined },
  });
  const insertSelect: Store['command'] = (sql, own) =>
    reads.run(sql, (node, settings) => node.command(sql, { insert_quorum: quorum(), ...settings, ...own }));
  const quorumDeps = { insertSelect, nodes: nodeStores, insertsEndWithinMs, quorums, tablesOf };
  return {
    ...wholeTables,
    query: (sql, params, own) =>
      reads.run(sql, (node, settings) => node.query(withoutPrewhere(sql), params, { ...own, ...settings })),
    stream: (sql, params, own, signal) =>
      reads.run(sql, (node, settings) => node.stream(sql, params, { ...own, ...settings }, signal)),
    command: (sql, own) => (readsRows(sql) ? insertSelect(sql, own) : wholeTables.command(sql, own)),
    runOn: reads.runOn,
    quorum: wholeTables,
    nodes: nodeStores,
    shards: () => shards().map(shardStore),
    partitionShards: assignments,
    shardQuorums: quorums,
    changeQuorum: (shard, wanted) => changeQuorum(quorumDeps, shard, wanted),
    forPartition: (partition, shard) =>
      partitionStore({
        ...{ wholeTables, tablesOf },
        history: () => assignments.of(partition).shards.map(shardStore) as [Store, ...Store[]],
        current: () => shardStore(shard ?? assignments.of(partition).shard),
      }),
    movePartitions: (partitions, shard) =>
      movePartitions(
        { cluster: name, store: { ...wholeTables, nodes: nodeStores }, assignments },
        partitions,
        shard,
      ),
    close: async () => {
      reads.close();
      await stopRefresh();
      await members.close();
    },
  };
}

/** ClickHouse rejects PREWHERE for the table `events` of a cluster, because this table reads a view. */
function withoutPrewhere(sql: string): string {
  return sql.replace(/\bPREWHERE\b/, 'WHERE');
}

type Shared = Pick<ReplicaSet, 'database' | 'tablesOf' | 'insertsEndWithinMs'>;

/** Returns a function that opens a store for the tables that all nodes have. */
function allNodesStores(members: Members, shared: Shared & Pick<ReplicaSet, 'name'>) {
  return (fullQuorum: number, quorum: () => number): Store =>
    quorumStore({
      ...{ ...shared, isShard: false, fullQuorum },
      get quorum() {
        return quorum();
      },
      get replicas() {
        return members.joined().map(({ store }) => store);
      },
    });
}

/** Returns a function that returns the store of a shard. */
function shardStores(members: Members, quorums: ShardQuorums, shared: Shared): (shard: string) => Store {
  const open = (shard: string): Store =>
    quorumStore({
      ...{ ...shared, name: `shard ${shard}`, isShard: true },
      get quorum() {
        return quorums.ofShard(shard);
      },
      get fullQuorum() {
        return quorums.fullQuorumOf(shard);
      },
      get replicas() {
        return members.joined().flatMap((member) => (member.shard === shard ? [member.store] : []));
      },
    });
  const stores = new Map<string, Store>();
  return (shard) => {
    const store = stores.get(shard) ?? open(shard);
    stores.set(shard, store);
    return store;
  };
}

function nodeAt(
  address: StoreOptions,
  joined: readonly Member[],
  quorums: ShardQuorums,
  tablesOf: ReplicaSet['tablesOf'],
): NodeStore {
  const member = joined.find((one) => one.address === address);
  const { url } = address;
  if (member === undefined)
    return {
      ...{ name: url, url, shard: undefined, replica: undefined },
      ...{ quorum: undefined, store: undefined },
    };
  const { shard, replica } = member;
  return {
    ...{ name: `${url} (${replica} of shard ${shard})`, url, shard, replica },
    ...{ quorum: quorums.ofShard(shard), isQuorumLowered: quorums.isLowered(shard) },
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

/**
 * Returns the replicated tables that each table or view reads. Asks all nodes, because a node that another start still repairs lacks
 * tables.
 * @throws Unavailable if no node has all tables
 */
async function tablesOfMembers(members: Members, database: string): Promise<Map<string, readonly string[]>> {
  const perNode = await Promise.all(
    members.joined().map(async ({ store }) => {
      const tables = await readTables(store, database).catch(emptyIfUnavailable);
      return [...tablesByName(tables, database)];
    }),
  );
  const tablesOf = new Map(
    [...Map.groupBy(perNode.flat(), ([name]) => name)].map(([name, all]) => [
      name,
      [...new Set(all.flatMap(([, tables]) => tables))],
    ]),
  );
  // Each start creates the table `events` after the tables that have rows.
  if (!tablesOf.get('events')?.length)
    throw new Unavailable('ClickHouse: no node that answers has all tables');
  return tablesOf;
}

function emptyIfUnavailable(error: unknown): [] {
  if (error instanceof Unavailable) return [];
  throw error;
}

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
