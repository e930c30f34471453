/** Opens the engines of a process: a log, a schema registry, and ClickHouse. Each engine is embedded or external. */
import type { BlockList } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type AllowedOrigins, allowedOrigins } from '@questlog/ingest/http/cors';
import type { JwtOptions } from '@questlog/ingest/tokens/jwt/jwtVerifier';
import { startEngineProcess } from '@questlog/runtime/clickhouse/chdb/engineProcess';
import { openMigrated } from '@questlog/runtime/clickhouse/migrate';
import {
  type AddressedStore,
  openStore,
  QueryRejected,
  type Store,
  type StoreOptions,
} from '@questlog/runtime/clickhouse/store';
import { waitForClickHouse } from '@questlog/runtime/clickhouse/waitForClickHouse';
import { parseTrustedProxies } from '@questlog/runtime/http/limits/addresses';
import { type EmbeddedExtras, openEmbeddedLog } from '@questlog/runtime/log/embedded/embeddedLog';
import type { KafkaConnection } from '@questlog/runtime/log/kafka/client/kafkaClient';
import type { Log } from '@questlog/runtime/log/log';
import { systemClock } from '@questlog/runtime/process/clock';
import { messageOf, StartRefused, Unavailable } from '@questlog/runtime/process/errors';
import type { Lifecycle } from '@questlog/runtime/process/lifecycle';
import type { Logger } from '@questlog/runtime/process/logger';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import type { SchemaRegistry } from '@questlog/runtime/registry/registry';
import type { S3StoreOptions } from '@questlog/runtime/uploads/s3Store';
import { TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { backupDirOf, isOnKafka, type Settings } from '../config.ts';
import type { Account } from '../credentials.ts';
import { jwtOptions } from '../jwt/jwtSettings.ts';
import { clickhouseAddress, readerAccount } from './clickhouseAddress.ts';
import { kafkaConnection } from './kafkaConnection.ts';

/** Default number of partitions of the embedded log. Each partition costs one insert per block. */
const EMBEDDED_PARTITIONS = 4;
/** Default number of partitions of a topic in Kafka, which allows up to twelve members in a consumer group. */
const KAFKA_PARTITIONS = 12;
const MIN_SIGNING_KEY = 32;
const MIGRATIONS = fileURLToPath(new URL('../../../../deploy/clickhouse', import.meta.url));

export interface Engines {
  readonly log: Log;
  readonly registry: SchemaRegistry;
  readonly store: Store;
  /** ClickHouse client with the read-only account. Undefined if no account is set. */
  readonly reader: AddressedStore | undefined;
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

/** Options from the settings, and the connections to external engines. An engine is embedded if its connection is undefined. */
export interface EngineChoice {
  readonly uploads: UploadChoice | undefined;
  readonly corsOrigins: AllowedOrigins;
  readonly publicUrl: string;
  readonly jwt: JwtOptions | undefined;
  readonly trustedProxies: BlockList;
  readonly kafka: KafkaConnection | undefined;
  readonly address: StoreOptions | undefined;
  readonly reader: (Account & { readonly url: string }) | undefined;
}

export type UploadChoice =
  | { readonly kind: 'folder'; readonly signingKey: string }
  | { readonly kind: 's3'; readonly options: S3StoreOptions };

export interface EngineDeps {
  readonly settings: Settings;
  readonly choice: EngineChoice;
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
  const { settings, lifecycle } = deps;
  const { kafka, address } = deps.choice;
  if (address !== undefined) await waitForClickHouse(address.url, deps.logger);
  const { clickhouse, problem } = address
    ? { clickhouse: address, problem: undefined }
    : await embeddedClickHouse(deps);
  const opened = await openMigrated(clickhouse, MIGRATIONS);
  // No insert of an earlier process can still run, because the embedded ClickHouse started together with this process.
  const store = address === undefined ? { ...opened, insertsEndWithinMs: 0 } : opened;
  lifecycle.onStop('ClickHouse client', () => store.close());

  const partitions = settings.partitions || (kafka === undefined ? EMBEDDED_PARTITIONS : KAFKA_PARTITIONS);
  await log.ensureTopics(topicDefinitions(partitions));
  if (embeddedLog !== undefined && address === undefined)
    await rejectEmptyLog(log, store, embeddedOf(deps).dataDir);
  await warnAboutOtherLogs(log, store, deps.logger);
  const registry = kafka === undefined ? await openLogRegistry(log) : await confluentRegistry(deps);
  const copyable = address === undefined ? embeddedLog : undefined;
  const brokenParts = await findBrokenParts(store, deps.logger);
  const reader = openReader(deps, clickhouse);
  const needsCompact = embeddedLog?.needsCompact ?? false;
  return { log, registry, store, reader, clickhouse, problem, brokenParts, needsCompact, copyable };
}

function openReader(
  { choice, embedded, lifecycle }: EngineDeps,
  clickhouse: StoreOptions,
): AddressedStore | undefined {
  const account = choice.address === undefined ? embedded?.reader : choice.reader;
  if (account === undefined) return undefined;
  const reader = openStore({ ...clickhouse, ...account });
  lifecycle.onStop('ClickHouse client of readers', () => reader.close());
  return reader;
}

/** Validates the settings before any engine is opened. Throws `StartRefused` that names every invalid setting. */
export function checkedChoice(settings: Settings, mayBeEmbedded: boolean): EngineChoice {
  const problems: string[] = [];
  const checked = <T>(work: () => T): T | undefined => {
    try {
      return work();
    } catch (error) {
      problems.push(messageOf(error));
      return undefined;
    }
  };
  const isEmbedded = settings.log === 'embedded' || (mayBeEmbedded && !isOnKafka(settings));
  const ownerHint = 'only `questlog standalone` can use embedded engines';
  if (isEmbedded && !mayBeEmbedded) problems.push(`QUESTLOG_LOG_ENGINE: must be kafka here; ${ownerHint}`);
  const kafka = isEmbedded ? undefined : checked(() => kafkaConnection(settings));
  if (!isEmbedded && settings.registryUrl === '') {
    problems.push('SCHEMA_REGISTRY_URL: required with the log on Kafka');
  }
  if (isEmbedded && settings.workers > 1) {
    problems.push('QUESTLOG_WORKERS: must be 1 with the embedded log, which only one process can open');
  }
  if (settings.workers > 1 && (settings.port === 0 || settings.adminPort === 0)) {
    problems.push(
      'QUESTLOG_PORT, QUESTLOG_ADMIN_PORT: must not be 0 with QUESTLOG_WORKERS, because a restarted worker would take another port',
    );
  }
  const hasUrl = settings.clickhouseUrl !== '';
  if (!hasUrl && !mayBeEmbedded) problems.push(`CLICKHOUSE_URL: required here; ${ownerHint}`);
  if (!hasUrl && settings.clickhouseReaderUrl !== '') {
    problems.push(
      'CLICKHOUSE_READER_URL: requires CLICKHOUSE_URL; the embedded ClickHouse has its own read-only account',
    );
  }
  const address = hasUrl ? checked(() => clickhouseAddress(settings)) : undefined;
  const reader = checked(() => readerAccount(settings));
  const uploads = checked(() => uploadChoice(settings, { isEmbedded, isStandalone: mayBeEmbedded }));
  const corsOrigins = checked(() => allowedOrigins(settings.corsOrigins)) ?? [];
  const publicUrl = checked(() => checkedPublicUrl(settings.publicUrl)) ?? '';
  const jwt = checked(() => jwtOptions(settings));
  const trustedProxies =
    checked(() => parseTrustedProxies(settings.trustedProxies)) ?? parseTrustedProxies('');
  if (problems.length > 0) throw new StartRefused(`settings: ${problems.join('; ')}`);
  return { kafka, address, reader, uploads, corsOrigins, publicUrl, jwt, trustedProxies };
}

function uploadChoice(
  settings: Settings,
  { isEmbedded, isStandalone }: { isEmbedded: boolean; isStandalone: boolean },
): UploadChoice | undefined {
  const { uploads, uploadSigningKey: signingKey } = settings;
  if (uploads === 's3' || (uploads === 'auto' && settings.s3Bucket !== '')) {
    return { kind: 's3', options: checkedS3(settings) };
  }
  if (signingKey !== '' && signingKey.length < MIN_SIGNING_KEY) {
    throw new StartRefused(`QUESTLOG_UPLOAD_SIGNING_KEY: must have at least ${MIN_SIGNING_KEY} characters`);
  }
  const isFolder = uploads === 'folder' || (uploads === 'auto' && isEmbedded);
  if (isFolder && !isStandalone) {
    // The sweep, the retention, and the erasures of operations need the same folder as ingest.
    throw new StartRefused(
      'QUESTLOG_UPLOADS: must not be folder here; only `questlog standalone` can use a folder. Use s3',
    );
  }
  return isFolder ? { kind: 'folder', signingKey } : undefined;
}

function checkedS3(settings: Settings): S3StoreOptions {
  const { s3Bucket: bucket, s3Region: region } = settings;
  const { s3Endpoint: endpoint, s3PublicEndpoint: publicEndpoint } = settings;
  const { s3AccessKeyId: accessKeyId, s3SecretAccessKey: secretAccessKey } = settings;
  if (bucket === '') throw new StartRefused('QUESTLOG_S3_BUCKET: required for uploads to S3');
  if ((accessKeyId === '') !== (secretAccessKey === '')) {
    throw new StartRefused(
      'QUESTLOG_S3_ACCESS_KEY_ID: set it together with QUESTLOG_S3_SECRET_ACCESS_KEY, or set neither',
    );
  }
  for (const [name, address] of Object.entries({ ENDPOINT: endpoint, PUBLIC_ENDPOINT: publicEndpoint })) {
    if (address === '' || /^https?:$/.test(URL.parse(address)?.protocol ?? '')) continue;
    throw new StartRefused(`QUESTLOG_S3_${name}: must be an http or https address`);
  }
  return { bucket, region, endpoint, publicEndpoint, accessKeyId, secretAccessKey };
}

function checkedPublicUrl(text: string): string {
  if (text === '') return '';
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isWhole =
    url !== undefined && /^https?:$/.test(url.protocol) && url.search + url.hash + url.username === '';
  if (!isWhole)
    throw new StartRefused('QUESTLOG_PUBLIC_URL: must be an http or https address without user and query');
  return url.href.replace(/\/+$/, '');
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
async function warnAboutOtherLogs(log: Log, store: Store, logger: Logger): Promise<void> {
  const others = await store.query<{ id: string }>(
    `SELECT DISTINCT log_id AS id FROM appends
     WHERE log_id != {log:UUID} AND log_id NOT IN (SELECT orphan_id FROM truncations) LIMIT 3`,
    { log: log.id },
  );
  if (others.length === 0) return;
  logger.warn('clickhouse_holds_another_log', { log: log.id, others: others.map(({ id }) => id) });
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
  const { choice, settings, logger } = deps;
  const { kafka: connection } = choice;
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

async function confluentRegistry({ settings, logger }: EngineDeps): Promise<SchemaRegistry> {
  const { openConfluentRegistry } = await import('@questlog/runtime/registry/confluentRegistry');
  return openConfluentRegistry({
    url: settings.registryUrl,
    username: settings.registryUsername,
    password: settings.registryPassword,
    caPem: settings.registryTlsCa,
    subjectPrefix: settings.prefix,
    logger,
  });
}

async function embeddedClickHouse(deps: EngineDeps): Promise<Pick<Engines, 'clickhouse' | 'problem'>> {
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
  return {
    clickhouse: { url: engine.url, username, password, database: 'questlog' },
    problem: engine.problem,
  };
}

/** Returns the options of the embedded engines. `checkedChoice` has checked that this service can have embedded engines. */
function embeddedOf({ embedded }: EngineDeps): NonNullable<EngineDeps['embedded']> {
  if (embedded === undefined) throw new Error('an embedded engine has no data folder here');
  return embedded;
}
