/** Opens what the services stand on: a log, a schema registry and ClickHouse, each the embedded one or a real one. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startEmbeddedClickHouse } from '@questlog/runtime/clickhouse/chdb/embeddedClickHouse';
import { openMigrated } from '@questlog/runtime/clickhouse/migrate';
import { reachClickHouse } from '@questlog/runtime/clickhouse/reachClickHouse';
import type { Store, StoreOptions } from '@questlog/runtime/clickhouse/store';
import { openEmbeddedLog } from '@questlog/runtime/log/embedded/embeddedLog';
import type { KafkaConnection } from '@questlog/runtime/log/kafka/client/kafkaClient';
import { openKafkaLog } from '@questlog/runtime/log/kafka/kafkaLog';
import type { Log } from '@questlog/runtime/log/log';
import { systemClock } from '@questlog/runtime/process/clock';
import { messageOf, StartRefused } from '@questlog/runtime/process/errors';
import type { Lifecycle } from '@questlog/runtime/process/lifecycle';
import type { Logger } from '@questlog/runtime/process/logger';
import { openConfluentRegistry } from '@questlog/runtime/registry/confluentRegistry';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import type { SchemaRegistry } from '@questlog/runtime/registry/registry';
import { topicDefinitions } from '@questlog/schemas/topics/topics';
import { clickhouseAddress } from './clickhouseAddress.ts';
import { isOnKafka, type Settings } from './config.ts';
import { kafkaConnection } from './kafkaConnection.ts';

/** Enough for a hot tenant to be spread in trying things out; each costs an insert a block. */
const EMBEDDED_PARTITIONS = 4;
/** Enough for a dozen of each consumer, and for a hot tenant to be spread. */
const KAFKA_PARTITIONS = 12;
/** Half of libuv's threads (see main.ts): the others serve files and name look-ups. */
const MAX_CONCURRENT_QUERIES = 8;
const MIGRATIONS = fileURLToPath(new URL('../../../deploy/clickhouse', import.meta.url));

export interface Engines {
  readonly log: Log;
  readonly registry: SchemaRegistry;
  readonly store: Store;
  /** Where ClickHouse was found or started. */
  readonly clickhouse: StoreOptions;
}

/** What is reached over the network; undefined: the embedded one. */
export interface EngineChoice {
  readonly kafka: KafkaConnection | undefined;
  readonly address: StoreOptions | undefined;
}

export interface EngineDeps {
  readonly settings: Settings;
  readonly choice: EngineChoice;
  /** Undefined where everything embedded is out of the question. */
  readonly embedded:
    | { readonly dataDir: string; readonly username: string; readonly password: string }
    | undefined;
  readonly logger: Logger;
  readonly lifecycle: Lifecycle;
}

/** @throws StartRefused where one cannot be opened; Unavailable when an engine does not answer. */
export async function openEngines(deps: EngineDeps): Promise<Engines> {
  const { settings, lifecycle } = deps;
  const { kafka, address } = deps.choice;
  const log = kafka === undefined ? await embeddedLog(deps) : await kafkaLog(deps, kafka);
  lifecycle.onStop('log', () => log.close());
  if (address !== undefined) await reachClickHouse(address.url, deps.logger);
  const clickhouse = address ?? (await embeddedClickHouse(deps));
  const store = await openMigrated(clickhouse, MIGRATIONS);
  lifecycle.onStop('ClickHouse client', () => store.close());

  const partitions = settings.partitions || (kafka === undefined ? EMBEDDED_PARTITIONS : KAFKA_PARTITIONS);
  await log.ensureTopics(topicDefinitions(partitions));
  await warnOfAnotherLog(log, store, deps.logger);
  const registry = kafka === undefined ? await openLogRegistry(log) : confluentRegistry(deps);
  return { log, registry, store, clickhouse };
}

/**
 * All that can be refused is, before anything starts.
 * @throws StartRefused naming every setting at fault.
 */
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
  const alone = 'the embedded one belongs to one process, `questlog standalone`';
  if (isEmbedded && !mayBeEmbedded) problems.push(`QUESTLOG_LOG: must be kafka here; ${alone}`);
  const kafka = isEmbedded ? undefined : checked(() => kafkaConnection(settings));
  if (!isEmbedded && settings.registryUrl === '') {
    problems.push('SCHEMA_REGISTRY_URL: needed with the log on Kafka');
  }
  const isGiven = settings.clickhouseUrl !== '';
  if (!isGiven && !mayBeEmbedded) problems.push(`CLICKHOUSE_URL: needed here; ${alone}`);
  const address = isGiven ? checked(() => clickhouseAddress(settings)) : undefined;
  if (problems.length > 0) throw new StartRefused(`settings: ${problems.join('; ')}`);
  return { kafka, address };
}

/** Right after a move to another log; otherwise two deployments write into one database, and neither has all it should. */
async function warnOfAnotherLog(log: Log, store: Store, logger: Logger): Promise<void> {
  const others = await store.query<{ id: string }>(
    'SELECT DISTINCT log_id AS id FROM appends WHERE log_id != {log:UUID} LIMIT 3',
    { log: log.id },
  );
  if (others.length === 0) return;
  logger.warn('clickhouse_holds_another_log', { log: log.id, others: others.map(({ id }) => id) });
}

function embeddedLog({ embedded }: EngineDeps): Promise<Log> {
  return openEmbeddedLog({ directory: join(embedded?.dataDir ?? '', 'log'), clock: systemClock });
}

function kafkaLog({ settings, logger }: EngineDeps, connection: KafkaConnection): Promise<Log> {
  const { prefix, kafkaReplicationFactor: replicationFactor } = settings;
  return openKafkaLog({ connection, prefix, replicationFactor, logger });
}

function confluentRegistry({ settings, logger }: EngineDeps): SchemaRegistry {
  return openConfluentRegistry({
    url: settings.registryUrl,
    username: settings.registryUsername,
    password: settings.registryPassword,
    caPem: settings.registryTlsCa,
    subjectPrefix: settings.prefix,
    logger,
  });
}

async function embeddedClickHouse({ embedded, lifecycle }: EngineDeps): Promise<StoreOptions> {
  const { dataDir = '', username = '', password = '' } = embedded ?? {};
  const server = await startEmbeddedClickHouse({
    directory: join(dataDir, 'clickhouse'),
    username,
    password,
    maxConcurrentQueries: MAX_CONCURRENT_QUERIES,
  });
  lifecycle.onStop('embedded ClickHouse', () => server.close());
  return { url: server.url, username, password, database: 'questlog' };
}
