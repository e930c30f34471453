/**
 * Creates the tables of a ClickHouse cluster and repairs nodes whose tables differ. A temporary database on one node gets the
 * tables of a single server from the SQL files. The tables of the cluster are derived from these tables. A run compares all nodes
 * with the derived tables, unless an earlier run has recorded their state. Therefore, the next run completes an interrupted run.
 */
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { systemClock } from '../../../process/clock.ts';
import { messageOf, StartRefused } from '../../../process/errors.ts';
import type { Logger } from '../../../process/logger.ts';
import { Backoff, retry } from '../../../process/waiting.ts';
import {
  type AppliedFile,
  MIGRATIONS_TABLE,
  type MigrationFile,
  migrationFiles,
  openMigrated,
  pendingFiles,
} from '../../migrate.ts';
import { openStore } from '../../store.ts';
import {
  type ClusterNode,
  type ClusterNodes,
  type ClusterOptions,
  openClusterNodes,
} from '../clusterNodes.ts';
import { assignPartitions } from '../partitions/assignPartitions.ts';
import { clusterTables } from './clusterSchema.ts';
import { Repair } from './repair.ts';
import { readTables, type StoredTable, type Table } from './tableState.ts';

export interface ClusterMigration {
  readonly options: ClusterOptions;
  readonly database: string;
  /** Folder of the SQL files. */
  readonly directory: string;
  /** Storage policy that all tables get. If it is empty, the storage policies do not change. */
  readonly storagePolicy?: string;
  readonly logger: Logger;
  readonly open?: typeof openStore;
}

/**
 * @throws StartRefused if the cluster or its tables cannot be used.
 * @throws Unavailable if no node answers, or if an answering node still has other tables than expected after the repair.
 */
export async function migrateCluster(migration: ClusterMigration): Promise<void> {
  const { options, database, directory, logger, open } = migration;
  const cluster = await openClusterNodes(options, logger, open);
  try {
    const files = migrationFiles(directory);
    const recorded = await recordedRows(cluster.nodes, database);
    const applied = recorded.filter(({ name }) => !name.startsWith(CHECKED));
    const pending = pendingFiles(files, applied);
    // A newer version has created tables that this version does not know, so this version must not change them back.
    if (applied.length + pending.length > files.length) return;
    await dropExpected(cluster.nodes, database);
    const tables = await attempt(() =>
      Promise.all(cluster.nodes.map(({ store }) => readTables(store, database))),
    );
    const isChecked = recorded.some(isNamed(checkedRow(tables, files, migration)));
    const usable = isChecked ? cluster : await repairTables(cluster, { files, pending, recorded }, migration);
    await attempt(() => assignPartitions(usable, database));
  } finally {
    await cluster.close();
  }
}

/** Prefix of the name of a row of `schema_migrations` that records a compared state. The hash of the state follows. */
const CHECKED = 'checked tables ';
/** Source text of the rules that derive the tables of a cluster and repair a node. */
const RULES = ['clusterSchema.ts', 'repair.ts'].map((name) =>
  readFileSync(new URL(name, import.meta.url), 'utf8'),
);

/**
 * Returns the row that records the state of a cluster: a hash of the tables of all nodes, the SQL files, and the rules. Returns
 * undefined if the nodes have different tables.
 */
function checkedRow(
  tablesOfNodes: readonly (readonly StoredTable[])[],
  files: readonly MigrationFile[],
  { options, storagePolicy }: ClusterMigration,
): AppliedFile | undefined {
  const expected = [RULES, MIGRATIONS_TABLE, files.map(({ sha256 }) => sha256), options.name, storagePolicy];
  const states = tablesOfNodes.map((tables) => {
    const stored = tables.map(({ definition: _, uuid, ...table }) => ({
      ...table,
      // Views and Distributed tables have different UUIDs on each node.
      uuid: table.engine.startsWith('Replicated') ? uuid : '',
    }));
    return JSON.stringify([expected, stored]);
  });
  const [state = '', ...others] = new Set(states);
  if (others.length > 0) return undefined;
  const sha256 = createHash('sha256').update(state).digest('hex');
  return { name: `${CHECKED}${sha256}`, sha256 };
}

function isNamed(row: AppliedFile | undefined): (recorded: AppliedFile) => boolean {
  return ({ name }) => name === row?.name;
}

interface Migrations {
  readonly files: readonly MigrationFile[];
  readonly pending: readonly AppliedFile[];
  /** All rows of `schema_migrations`. */
  readonly recorded: readonly AppliedFile[];
}

/** Compares the tables of all nodes with the SQL files, and repairs nodes that differ. @returns the nodes that have all tables */
async function repairTables(
  nodes: ClusterNodes,
  { files, pending, recorded }: Migrations,
  migration: ClusterMigration,
): Promise<ClusterNodes> {
  const { options, database, directory, storagePolicy = '', logger, open = openStore } = migration;
  const from = `${database}${EXPECTED}${systemClock.now()}_${randomBytes(4).toString('hex')}`;
  const names = { from, database, cluster: options.name, storagePolicy };
  const derive = (node: ClusterNode) => singleServerTables(node, from, directory, open);
  const expected = clusterTables(await onFirstWritable(nodes.nodes, derive, logger), names);
  const { cluster, tables } = await attempt(() => new Repair(nodes, expected, names, logger).run());
  const record = async (rows: readonly AppliedFile[]): Promise<void> => {
    const values = rows.map(({ name, sha256 }) => `('${name}', '${sha256}')`).join(', ');
    const insert = `INSERT INTO ${database}.schema_migrations (name, sha256) VALUES ${values}`;
    if (values !== '') await onFirstWritable(cluster.nodes, ({ store }) => store.command(insert), logger);
  };
  await record(pending);
  const checked = checkedRow(tables, files, migration);
  // Without this row, the next start compares the tables again.
  if (checked !== undefined && !recorded.some(isNamed(checked))) await record([checked]).catch(() => {});
  return cluster;
}

/** Part of the name of a temporary database. The time of the creation and a random number follow. */
const EXPECTED = '_expected_';
/** Age at which a temporary database counts as left over from a killed start. */
const EXPECTED_IN_USE_MS = 10 * 60_000;

/** Drops the temporary databases of starts that were killed. */
async function dropExpected(nodes: readonly ClusterNode[], database: string): Promise<void> {
  const prefix = `${database}${EXPECTED}`;
  const isOld = (name: string): boolean => {
    const createdAtMs = Number(/^(\d+)_[0-9a-f]{8}$/.exec(name.slice(prefix.length))?.[1]);
    return name.startsWith(prefix) && createdAtMs < systemClock.now() - EXPECTED_IN_USE_MS;
  };
  for (const { store } of nodes) {
    const databases = await store.query<{ name: string }>('SELECT name FROM system.databases');
    // A later start drops the database if, for example, the disk of the node is full.
    for (const { name } of databases.filter((one) => isOld(one.name)))
      await store.command(`DROP DATABASE IF EXISTS ${name}`).catch(() => {});
  }
}

/**
 * Repeats work after a failure. Work can fail because another start changes the same tables, or because a node does not answer
 * in time.
 */
async function attempt<T>(work: () => Promise<T>): Promise<T> {
  let failures = 0;
  const isRetryable = (error: Error): boolean =>
    !(error instanceof StartRefused) && ++failures < MAX_ATTEMPTS;
  return await retry(work, { backoff: new Backoff(FIRST_PAUSE_MS, MAX_PAUSE_MS), isRetryable });
}

const MAX_ATTEMPTS = 10;
const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 2_000;

/** Returns the rows of `schema_migrations` on all nodes. */
async function recordedRows(nodes: readonly ClusterNode[], database: string): Promise<AppliedFile[]> {
  const perNode = await Promise.all(
    nodes.map(async ({ store }) => {
      const [table] = await store.query(
        `SELECT name FROM system.tables WHERE database = {database:String} AND name = 'schema_migrations'`,
        { database },
      );
      if (table === undefined) return [];
      return await store.query<AppliedFile>(
        `SELECT DISTINCT name, sha256 FROM ${database}.schema_migrations`,
      );
    }),
  );
  // A new node has only a part of the rows while it fetches them from the other nodes.
  return [...new Map(perNode.flat().map((file) => [file.name, file])).values()];
}

/**
 * Returns the result of the first node on which `work` succeeds. `work` fails, for example, on a node whose disk is full.
 * @throws the error of the last node if `work` fails on all nodes
 */
async function onFirstWritable<T>(
  nodes: readonly ClusterNode[],
  work: (node: ClusterNode) => Promise<T>,
  logger: Logger,
): Promise<T> {
  let failure: unknown;
  for (const node of nodes) {
    try {
      return await work(node);
    } catch (error) {
      logger.warn('clickhouse_node_unavailable', { node: node.address.url, cause: messageOf(error) });
      failure = error;
    }
  }
  throw failure;
}

/** Returns the tables of a single server. Applies the SQL files to a temporary database. */
async function singleServerTables(
  { address, store }: ClusterNode,
  database: string,
  directory: string,
  open: typeof openStore,
): Promise<Table[]> {
  try {
    const migrated = await openMigrated({ ...address, database }, directory, '', open);
    await migrated.close();
    return await readTables(store, database);
  } finally {
    await store.command(`DROP DATABASE IF EXISTS ${database}`);
  }
}
