/**
 * Opens the store of a ClickHouse cluster. Writes use a quorum of replicas. The rows of a log partition are on one shard, which
 * the table `partition_shards` names. Other queries read any node that has all committed rows.
 */
import { messageOf, Unavailable } from '../../process/errors.ts';
import type { Logger } from '../../process/logger.ts';
import { openStore, type Store, type StoreOptions } from '../store.ts';
import { type Member, type Members, openMembers, quorumOf } from './clusterMembers.ts';
import type { ClusterOptions } from './clusterNodes.ts';
import { localName, PARTITION_SHARDS, SHARDED } from './clusterSchema.ts';
import { quorumStore, type ReplicaSet, syncTables, tablesIn } from './quorumStore.ts';
import { readTables, type StoredTable } from './tableState.ts';

/**
 * Settings of all requests. An insert ends within `insertsEndWithinMs`, because ClickHouse waits 10 s for a quorum and does not
 * repeat requests to Keeper. `SYSTEM SYNC REPLICA` waits for `receive_timeout`. A query fails if a shard is unavailable.
 */
const SETTINGS = {
  insert_quorum_parallel: 1,
  insert_quorum_timeout: 10_000,
  insert_keeper_max_retries: 0,
  receive_timeout: 10,
  skip_unavailable_shards: 0,
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
    return await storeOf(members, options, database);
  } catch (error) {
    await members.close();
    throw error;
  }
}

async function storeOf(members: Members, { name, nodes }: ClusterOptions, database: string): Promise<Store> {
  const { store: first } = members.first;
  const tablesOf = tablesByName(await readTables(first, database), database);
  const { insertsEndWithinMs } = first;
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
  const stores = new Map(
    shards.map((shard) => [shard, partitionStore(shardStore(shard), wholeTables, tablesOf)]),
  );
  const onSyncedNode = async <T>(sql: string, work: (node: Store) => Promise<T>): Promise<T> => {
    const read = tablesIn(sql, tablesOf);
    const readShards = isSharded(read) ? shards : [];
    const synced = await syncedMembers(members.joined(), read, readShards);
    const node = synced[Math.floor(Math.random() * synced.length)]?.store ?? first;
    const result = await work(node);
    if (synced.length < nodes.length) await rejectOtherReplicas(node, name, readShards, synced);
    return result;
  };
  return {
    ...wholeTables,
    query: (sql, ...more) => onSyncedNode(sql, (node) => node.query(sql, ...more)),
    stream: (sql, ...more) => onSyncedNode(sql, (node) => node.stream(sql, ...more)),
    quorum: wholeTables,
    forPartition: (partition) => {
      const store = stores.get(shardOf.get(partition) ?? '');
      if (store === undefined) throw new Unavailable(`ClickHouse: partition ${partition} has no shard`);
      return store;
    },
    close: () => members.close(),
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

/**
 * Waits until the replicas have fetched all parts of the tables. Returns the nodes that answered in time.
 * @param shards shards that the query reads
 * @throws Unavailable with the name of the shard if no replica of a shard answers in time
 */
async function syncedMembers(
  members: readonly Member[],
  tables: readonly string[],
  shards: readonly string[],
): Promise<Member[]> {
  const results = await Promise.allSettled(members.map(({ store }) => syncTables(store, tables)));
  const synced = members.filter((_, node) => results[node]?.status === 'fulfilled');
  const missing = shards.find((shard) => !synced.some((node) => node.shard === shard));
  if (missing === undefined && synced.length > 0) return synced;
  const failure = results.find((result) => result.status === 'rejected');
  const name = missing === undefined ? 'the cluster' : `shard ${missing}`;
  throw new Unavailable(`ClickHouse: no replica of ${name} answers: ${messageOf(failure?.reason)}`, {
    cause: failure?.reason,
  });
}

/**
 * Rejects the result of a query if the node that ran the query can connect to a replica that possibly lacks rows. ClickHouse
 * chooses a replica of each shard itself, and ignores the delay of a replica if a Distributed table reads a view.
 * @param node node that has run the query
 * @param synced replicas that had all rows
 */
async function rejectOtherReplicas(
  node: Store,
  cluster: string,
  shards: readonly string[],
  synced: readonly Member[],
): Promise<void> {
  if (shards.length === 0) return;
  const reachable = await node.query<{ shard: string; replica: string }>(
    `SELECT getMacro('shard') AS shard, getMacro('replica') AS replica FROM clusterAllReplicas('${cluster}', system.one)`,
    {},
    { skip_unavailable_shards: 1 },
  );
  const other = reachable.find(
    ({ shard, replica }) =>
      shards.includes(shard) &&
      !synced.some((member) => member.shard === shard && member.replica === replica),
  );
  if (other !== undefined)
    throw new Unavailable(`ClickHouse: ${other.replica} of shard ${other.shard} does not have all rows yet`);
}

const SHARDED_TABLES: ReadonlySet<string> = new Set([...SHARDED].map(localName));

function isSharded(tables: readonly string[]): boolean {
  return tables.some((table) => SHARDED_TABLES.has(table));
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
