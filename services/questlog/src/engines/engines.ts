/** Opens the engines of a process: a log, a schema registry, and ClickHouse. Each engine is embedded or external. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startEngineProcess } from '@questlog/runtime/clickhouse/chdb/engineProcess';
import { QueryRejected } from '@questlog/runtime/clickhouse/clickhouseErrors';
import { openClusterStore } from '@questlog/runtime/clickhouse/cluster/clusterStore';
import { migrateCluster } from '@questlog/runtime/clickhouse/cluster/tables/migrateCluster';
import { openMigrated } from '@questlog/runtime/clickhouse/migrate';
import {
  type AddressedStore,
  openStore,
  type Store,
  type StoreOptions,
} from '@questlog/runtime/clickhouse/store';
import { openServerAccounts } from '@questlog/runtime/clickhouse/studios/serverAccounts';
import { requireVisibleRows } from '@questlog/runtime/clickhouse/studios/visibleRows';
import type { StudioAccounts } from '@questlog/runtime/clickhouse/studioTables';
import { waitForClickHouse } from '@questlog/runtime/clickhouse/waitForClickHouse';
import { type EmbeddedExtras, openEmbeddedLog } from '@questlog/runtime/log/embedded/embeddedLog';
import type { Log } from '@questlog/runtime/log/log';
import { systemClock } from '@questlog/runtime/process/clock';
import { StartRefused, Unavailable } from '@questlog/runtime/process/errors';
import type { Lifecycle } from '@questlog/runtime/process/lifecycle';
import type { Logger } from '@questlog/runtime/process/logger';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import type { SchemaRegistry } from '@questlog/runtime/registry/registry';
import { TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { backupDirOf, type Options, type Settings } from '../config.ts';
import type { Account } from '../credentials.ts';

/** Default number of partitions of the embedded log. Each partition costs one insert per block. */
const EMBEDDED_PARTITIONS = 4;
/** Default number of partitions of a topic in Kafka, which allows up to twelve members in a consumer group. */
const KAFKA_PARTITIONS = 12;
const MIGRATIONS = fileURLToPath(new URL('../../../../deploy/clickhouse', import.meta.url));

export interface Engines {
  readonly log: Log;
  readonly registry: SchemaRegistry;
  readonly store: Store;
  /** ClickHouse client with the read-only account. Undefined if no account is set. */
  readonly reader: AddressedStore | undefined;
  readonly studioAccounts: StudioAccounts;
  readonly clickhouse: StoreOptions;
  /** Returns the current problem of the embedded ClickHouse. Undefined for an external ClickHouse. */
  readonly problem: (() => string | undefined) | undefined;
  /** Warning about damaged parts that ClickHouse detached when it started. Undefined if ClickHouse detached no parts. */
  readonly brokenParts: string | undefined;
  /** True if an older version created the file of the embedded log. `questlog compact` rewrites the file. */
  readonly needsCompact: boolean;
  /** The embedded log, for backups. Undefined if the log or ClickHouse is external. */
  readonly copyable: Pick<Log & EmbeddedExtras, 'id' | 'copy'> | undefined;
}

export interface EngineDeps {
  readonly settings: Settings;
  readonly options: Pick<Options, 'kafka' | 'registry' | 'clickhouse'>;
  /** Options of embedded engines. Undefined for a service that cannot have embedded engines. */
  readonly embedded: (Account & { readonly dataDir: string; readonly reader: Account }) | undefined;
  readonly logger: Logger;
  readonly lifecycle: Lifecycle;
}

/**
 * Resolves when the log is open. The promise `engines` resolves when ClickHouse has also started. Throws `StartRefused` if an
 * engine cannot be opened, and `Unavailable` if an engine does not answer.
 */
export async function openEngines(deps: EngineDeps): Promise<{ readonly engines: Promise<Engines> }> {
  const opened = await openLog(deps);
  deps.lifecycle.onStop('log', () => opened.log.close());
  return { engines: openOtherEngines(opened, deps) };
}

async function openOtherEngines({ log, embeddedLog }: OpenedLog, deps: EngineDeps): Promise<Engines> {
  const { settings, options, lifecycle } = deps;
  const { address, cluster } = options.clickhouse;
  const addresses = cluster?.nodes ?? (address === undefined ? [] : [address]);
  if (addresses.length > 0)
    await Promise.any(addresses.map(({ url }) => waitForClickHouse(url, deps.logger))).catch(firstError);
  const { clickhouse, problem, studioAccounts } = address
    ? { clickhouse: address, problem: undefined, studioAccounts: openAccounts(deps, address) }
    : await embeddedClickHouse(deps);
  const opened = await openTables(options.clickhouse, clickhouse, deps.logger);
  await requireVisibleRows(addresses);
  // Does not wait for inserts of an earlier process, because the embedded ClickHouse has been restarted with this process.
  const store = address === undefined ? { ...opened, insertsEndWithinMs: 0 } : opened;
  lifecycle.onStop('ClickHouse client', () => store.close());

  const partitions =
    settings.partitions || (embeddedLog !== undefined ? EMBEDDED_PARTITIONS : KAFKA_PARTITIONS);
  await log.ensureTopics(topicDefinitions(partitions));
  if (embeddedLog !== undefined && address === undefined)
    await rejectEmptyLog(log, store, embeddedOf(deps).dataDir);
  await warnAboutOtherLogs(log, store, deps.logger);
  const registry = embeddedLog === undefined ? await confluentRegistry(deps) : await openLogRegistry(log);
  const copyable = address === undefined ? embeddedLog : undefined;
  // In a cluster, a replica fetches a damaged part from another replica.
  const brokenParts = cluster === undefined ? await findBrokenParts(store, deps.logger) : undefined;
  const reader = openReader(deps, clickhouse, store);
  const needsCompact = embeddedLog?.needsCompact ?? false;
  const connections = { log, registry, store, reader, studioAccounts, clickhouse };
  return { ...connections, problem, brokenParts, needsCompact, copyable };
}

/** Returns the accounts of studios on a ClickHouse server or cluster. */
function openAccounts({ options, logger, lifecycle }: EngineDeps, address: StoreOptions): StudioAccounts {
  const { cluster, readers } = options.clickhouse;
  const nodes = cluster?.nodes ?? [address];
  const accounts = openServerAccounts({
    ...{ nodes, cluster: cluster?.name, database: address.database, logger },
    url: readers[0]?.url ?? address.url,
    unrestricted: [...new Set([...nodes, ...readers].map(({ username }) => username))],
  });
  lifecycle.onStop('accounts of studios', () => accounts.close());
  return accounts;
}

function firstError(error: unknown): never {
  throw error instanceof AggregateError ? error.errors[0] : error;
}

async function openTables(
  { cluster, storagePolicy }: Options['clickhouse'],
  clickhouse: StoreOptions,
  logger: Logger,
): Promise<Store> {
  if (cluster === undefined) return await openMigrated(clickhouse, MIGRATIONS, storagePolicy);
  const { database } = clickhouse;
  await migrateCluster({ options: cluster, database, directory: MIGRATIONS, storagePolicy, logger });
  return await openClusterStore(cluster, database, logger);
}

function openReader(
  { options, embedded, lifecycle }: EngineDeps,
  clickhouse: StoreOptions,
  { runOn }: Store,
): AddressedStore | undefined {
  const { address, readers: own } = options.clickhouse;
  const accounts = address === undefined ? [embedded?.reader] : own;
  const stores = accounts.flatMap((account) =>
    account === undefined ? [] : openStore({ ...clickhouse, ...account }),
  );
  lifecycle.onStop('ClickHouse client of readers', async () => {
    await Promise.all(stores.map((store) => store.close()));
  });
  const [first] = stores;
  if (first === undefined || runOn === undefined) return first;
  return { ...first, queryRaw: (sql, ...more) => runOn(sql, stores, (one) => one.queryRaw(sql, ...more)) };
}

/**
 * Rejects the start if the embedded log is empty but ClickHouse has rows. If the log file was lost, Questlog would seem ready
 * but reject every request, because the log contains the tenants and tokens.
 */
async function rejectEmptyLog(log: Log, store: Store, dataDir: string): Promise<void> {
  if ((await log.endOffset(TOPICS.directory, 0)) > 0) return;
  const [stored] = await store.query<{ total: string }>(
    `SELECT sum(total_rows) AS total FROM system.tables
     WHERE database = currentDatabase() AND name IN ('sessions', 'events', 'reports')`,
  );
  if (Number(stored?.total ?? 0) === 0) return;
  const [file, folder] = [join(dataDir, 'log', 'questlog.db'), join(dataDir, 'clickhouse')];
  const action = 'restore a backup into an empty folder, or move ClickHouse’s folder away to start empty';
  throw new StartRefused(
    `the log ${file} is new or empty, but ClickHouse in ${folder} has rows of another log: ${action}`,
  );
}

/** Logs a warning if ClickHouse has rows of another log, for example because two deployments share the database. */
export async function warnAboutOtherLogs(
  { id: log }: Pick<Log, 'id'>,
  store: Pick<Store, 'query'>,
  logger: Logger,
): Promise<void> {
  const query = store.query<{ id: string }>(
    `SELECT DISTINCT log_id AS id FROM appends
     WHERE log_id != {log:UUID} AND log_id NOT IN (SELECT orphan_id FROM truncations) LIMIT 3`,
    { log },
  );
  // The start continues if a shard of a cluster has no usable replica.
  const others = await query.catch((error: unknown) => {
    if (!(error instanceof Unavailable)) throw error;
    logger.warn('clickhouse_other_logs_not_looked_at', { cause: error.message });
    return [];
  });
  if (others.length === 0) return;
  logger.warn('clickhouse_holds_another_log', { log, others: others.map(({ id }) => id) });
}

/** Returns a warning if ClickHouse detached damaged parts when it started. The rows of these parts are missing. */
export async function findBrokenParts(
  store: Pick<Store, 'query'>,
  logger: Logger,
): Promise<string | undefined> {
  const query = store.query<{ table: string; parts: readonly string[] }>(
    `SELECT table, groupArray(10)(name) AS parts FROM system.detached_parts
     WHERE database = currentDatabase() AND reason LIKE 'broken%' GROUP BY table ORDER BY table`,
  );
  // The start continues if the account has no right to read `system.detached_parts`.
  const found = await query.catch((error: unknown) => {
    if (!(error instanceof Unavailable || error instanceof QueryRejected)) throw error;
    logger.warn('clickhouse_parts_not_looked_at', { cause: error.message });
    return [];
  });
  if (found.length === 0) return undefined;
  logger.warn('clickhouse_parts_broken', { tables: found });
  const tables = found.map(({ table }) => table).join(', ');
  return `ClickHouse detached broken parts of ${tables}; npx questlog verify lists the missing records`;
}

interface OpenedLog {
  readonly log: Log;
  readonly embeddedLog: (Log & EmbeddedExtras) | undefined;
}

async function openLog(deps: EngineDeps): Promise<OpenedLog> {
  const { options, settings, logger } = deps;
  const { kafka: connection } = options;
  if (connection === undefined) {
    const directory = join(embeddedOf(deps).dataDir, 'log');
    const own = await openEmbeddedLog({ directory, clock: systemClock });
    return { log: own, embeddedLog: own };
  }
  // A tenth of all loaded modules belong to the Kafka clients, so the clients are loaded only if the log is on Kafka.
  const { openKafkaLog } = await import('@questlog/runtime/log/kafka/kafkaLog');
  const { prefix, kafkaReplicationFactor: replicationFactor } = settings;
  return {
    log: await openKafkaLog({ connection, prefix, replicationFactor, logger }),
    embeddedLog: undefined,
  };
}

async function confluentRegistry({ options, settings, logger }: EngineDeps): Promise<SchemaRegistry> {
  const { registry } = options;
  if (registry === undefined) throw new Error('the options of a log on Kafka lack a schema registry');
  const { openConfluentRegistry } = await import('@questlog/runtime/registry/confluentRegistry');
  return openConfluentRegistry({ ...registry, subjectPrefix: settings.prefix, logger });
}

async function embeddedClickHouse(
  deps: EngineDeps,
): Promise<Pick<Engines, 'clickhouse' | 'problem' | 'studioAccounts'>> {
  const { settings, lifecycle, logger } = deps;
  const { dataDir, username, password, reader } = embeddedOf(deps);
  const options = {
    directory: join(dataDir, 'clickhouse'),
    port: settings.clickhousePort,
    username,
    password,
    backups: backupDirOf(settings),
    reader,
  };
  const engine = await startEngineProcess(options, logger);
  lifecycle.onStop('embedded ClickHouse', () => engine.close());
  const address = { url: engine.url, database: 'questlog' };
  return {
    clickhouse: { ...address, username, password },
    problem: engine.problem,
    studioAccounts: {
      ...{ ...address, set: engine.setStudios },
      refusal: async () => undefined,
      warning: () => undefined,
    },
  };
}

/** Returns the options of the embedded engines. `checkedOptions` has checked that this service can have embedded engines. */
function embeddedOf({ embedded }: EngineDeps): NonNullable<EngineDeps['embedded']> {
  if (embedded === undefined) throw new Error('an embedded engine has no data folder here');
  return embedded;
}
