/**
 * Opens the store of a ClickHouse cluster. Writes use a quorum of replicas. The rows of a log partition are on one shard, which the
 * table `partition_shards` names. Other queries read any node that has all committed rows.
 */
import { messageOf, Unavailable } from '../../process/errors.ts';
import type { Logger } from '../../process/logger.ts';
import { openStore, type Store } from '../store.ts';
import { type ClusterOptions, openClusterNodes } from './clusterNodes.ts';
import { localName, PARTITION_SHARDS, SHARDED } from './clusterSchema.ts';
import { quorumStore, type ReplicaSet, syncTables, tablesIn } from './quorumStore.ts';
import { readTables, type StoredTable } from './tableState.ts';

const MAX_QUORUM = 2;
const SHARD = 'shard ';

/**
 * Settings of all requests. An insert ends within `insertsEndWithinMs`, because ClickHouse waits 10 s for a quorum and does not
 * repeat requests to Keeper. `SYSTEM SYNC REPLICA` waits for `receive_timeout`. A query fails if a shard is unavailable or delayed.
 */
const SETTINGS = {
  insert_quorum_parallel: 1,
  insert_quorum_timeout: 10_000,
  insert_keeper_max_retries: 0,
  receive_timeout: 10,
  fallback_to_stale_replicas_for_distributed_queries: 0,
  skip_unavailable_shards: 0,
};

/** Opens the store after `migrateCluster` has created the tables. @throws Unavailable if no node answers. */
export async function openClusterStore(
  options: ClusterOptions,
  database: string,
  logger: Pick<Logger, 'warn'>,
): Promise<Store> {
  const { nodes, close: closeNodes } = await openClusterNodes(options, logger);
  await closeNodes();
  const quorum = Math.min(MAX_QUORUM, ...nodes.map(({ replicas }) => replicas));
  const querySettings = { ...SETTINGS, insert_quorum: quorum };
  const opened = nodes.map(({ address, shard }) => ({
    shard,
    store: openStore({ ...address, querySettings }),
  }));
  const [{ store: first } = { store: undefined }] = opened;
  if (first === undefined) throw new Unavailable(`no node of the ClickHouse cluster ${options.name} answers`);
  const tables = await readTables(first, database);
  const tablesOf = tablesByName(tables, database);
  const set = (name: string, stores: readonly { readonly store: Store }[]): ReplicaSet => ({
    ...{ name, isShard: name.startsWith(SHARD), database, quorum, tablesOf },
    replicas: stores.map(({ store }) => store),
    insertsEndWithinMs: first.insertsEndWithinMs,
  });
  const wholeTables = quorumStore(set(`the cluster ${options.name}`, opened));
  const shards = new Map(
    [...Map.groupBy(opened, ({ shard }) => shard)].map(([shard, stores]) => [
      shard,
      quorumStore(set(`${SHARD}${shard}`, stores)),
    ]),
  );
  const assignments = await wholeTables.query<{ partition: number; shard: string }>(
    `SELECT log_partition AS partition, shard FROM ${PARTITION_SHARDS} FINAL`,
  );
  const shardOf = new Map(assignments.map(({ partition, shard }) => [partition, shard]));
  return {
    ...wholeTables,
    query: async (sql, params, settings) => {
      const read = tablesIn(sql, tablesOf);
      const isSharded = read.some((table) => SHARDED_TABLES.has(table));
      const node = await syncedNode(opened, read, isSharded ? [...new Set(shardOf.values())] : []);
      return await node.query(sql, params, settings);
    },
    quorum: wholeTables,
    forPartition: (partition) => {
      const shard = shardOf.get(partition) ?? '';
      const store = shards.get(shard);
      if (store === undefined)
        throw new Unavailable(`ClickHouse: no replica of shard ${shard} answered at the start`);
      return store;
    },
    close: async () => {
      await Promise.all(opened.map(({ store }) => store.close()));
    },
  };
}

/**
 * Waits until the nodes have fetched all parts of the tables, and returns one of these nodes.
 * @param shards shards that the query reads
 * @throws Unavailable with the name of the shard if no replica of a shard answers in time
 */
async function syncedNode(
  nodes: readonly { readonly shard: string; readonly store: Store }[],
  tables: readonly string[],
  shards: readonly string[],
): Promise<Store> {
  const results = await Promise.allSettled(nodes.map(({ store }) => syncTables(store, tables)));
  const synced = nodes.filter((_, node) => results[node]?.status === 'fulfilled');
  const missing = shards.find((shard) => !synced.some((node) => node.shard === shard));
  const node = synced[Math.floor(Math.random() * synced.length)];
  if (missing === undefined && node !== undefined) return node.store;
  const failure = results.find((result) => result.status === 'rejected');
  const name = missing === undefined ? 'the cluster' : `shard ${missing}`;
  throw new Unavailable(`ClickHouse: no replica of ${name} answers: ${messageOf(failure?.reason)}`, {
    cause: failure?.reason,
  });
}

const SHARDED_TABLES: ReadonlySet<string> = new Set([...SHARDED].map(localName));

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
