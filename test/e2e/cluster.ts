/**
 * The product as a deployment runs it. Ingest, operations, linker, and projector are separate processes. They use the Kafka, schema
 * registry, ClickHouse, and bucket of the test run. Each data directory stands for one deployment with its own topics and its
 * own database.
 */
import { basename } from 'node:path';
import { deleteTopics } from '@questlog/runtime/log/kafka/testing/deleteTopics';
import type {
  ClickHouseAddresses,
  MigratedTables,
  S3Bucket,
} from '@questlog/runtime/log/kafka/testing/engines';

/**
 * Environment variable with the addresses of the engines. The `kafka` project of the tests sets it. Unset for the embedded
 * engines.
 */
const ENGINES = 'QUESTLOG_TEST_ENGINES';
/** Number of partitions, equal to the number of the embedded log. The tests of spread and lanes depend on this number. */
const PARTITIONS = '4';

export interface ClusterEngines {
  readonly brokers: string;
  readonly registryUrl: string;
  readonly clickhouseUrl: string;
  /** ClickHouse cluster that the deployment uses instead of `clickhouseUrl`. */
  readonly clickhouseCluster?: ClickHouseAddresses;
  /** Bucket for uploads. Undefined if the deployment has no uploads. */
  readonly s3?: S3Bucket;
  /** Tables that a new deployment copies. Undefined if the product creates the tables. */
  readonly tables?: MigratedTables;
}

export function clusterEngines(): ClusterEngines | undefined {
  const text = process.env[ENGINES];
  return text === undefined ? undefined : JSON.parse(text);
}

export function clusterEnvironment(engines: ClusterEngines, dataDir: string): Record<string, string> {
  const name = nameOf(dataDir);
  return {
    KAFKA_BROKERS: engines.brokers,
    SCHEMA_REGISTRY_URL: engines.registryUrl,
    ...clickhouseSettings(engines, name),
    QUESTLOG_DEMO: 'on',
    ...uploadSettings(engines),
    QUESTLOG_PREFIX: `${name}.`,
    QUESTLOG_PARTITIONS: PARTITIONS,
    // The brokers of these tests do not fail, and three replicas would double the CPU time of the brokers.
    KAFKA_REPLICATION_FACTOR: '1',
    QUESTLOG_ADMIN_TOKEN: `qla_of_the_tests_${name}`,
  };
}

/** Returns the settings for the ClickHouse of the engines. */
export function clickhouseSettings(
  { clickhouseUrl, clickhouseCluster }: ClusterEngines,
  database: string,
): Record<string, string> {
  const inDatabase = (url: string): string => new URL(database, new URL('/', url)).href;
  if (clickhouseCluster !== undefined) {
    const { name, nodes, readers = [] } = clickhouseCluster;
    return {
      CLICKHOUSE_CLUSTER: name,
      CLICKHOUSE_URL: nodes.map(inDatabase).join(','),
      CLICKHOUSE_READER_URL: readers.join(','),
    };
  }
  const reader = new URL(clickhouseUrl);
  reader.username = 'reader';
  return { CLICKHOUSE_URL: inDatabase(clickhouseUrl), CLICKHOUSE_READER_URL: reader.href };
}

/** Returns the addresses of all ClickHouse nodes. */
export function clickhouseNodes({ clickhouseUrl, clickhouseCluster }: ClusterEngines): readonly string[] {
  return clickhouseCluster?.nodes ?? [clickhouseUrl];
}

function uploadSettings({ s3 }: ClusterEngines): Record<string, string> {
  if (s3 === undefined) return {};
  return {
    QUESTLOG_S3_ENDPOINT: s3.endpoint,
    QUESTLOG_S3_BUCKET: s3.bucket,
    QUESTLOG_S3_ACCESS_KEY_ID: s3.accessKeyId,
    QUESTLOG_S3_SECRET_ACCESS_KEY: s3.secretAccessKey,
  };
}

/** Creates the tables of a deployment before its first start, if the engines have tables to copy. A cluster copies no tables. */
export async function createTables(
  { clickhouseUrl, clickhouseCluster, tables }: ClusterEngines,
  dataDir: string,
): Promise<void> {
  const name = nameOf(dataDir);
  if (tables === undefined || clickhouseCluster !== undefined) return;
  if ((await runStatement(clickhouseUrl, `EXISTS DATABASE ${name}`)) === '1\n') return;
  const { database, statements } = tables;
  for (const statement of statements) await runStatement(clickhouseUrl, statement.replaceAll(database, name));
}

/** Deletes the topics and the database of a deployment. The registry keeps the few schemas of the deployment. */
export async function removeDeployment(engines: ClusterEngines, dataDir: string): Promise<void> {
  await deleteTopics(engines.brokers, `${nameOf(dataDir)}.`);
  await Promise.all(
    clickhouseNodes(engines).map((node) => runStatement(node, `DROP DATABASE IF EXISTS ${nameOf(dataDir)}`)),
  );
}

/** Runs a statement in ClickHouse without Questlog. @returns the response as text */
async function runStatement(clickhouseUrl: string, body: string): Promise<string> {
  const { username, password, origin } = new URL(clickhouseUrl);
  const basic = Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`);
  const headers = { Authorization: `Basic ${basic.toString('base64')}` };
  const response = await fetch(origin, { method: 'POST', headers, body });
  const text = await response.text();
  if (!response.ok) throw new Error(`${body}: ${text}`);
  return text;
}

/** Returns the name of a deployment. The name is valid for a topic, a schema subject, and a database. */
function nameOf(dataDir: string): string {
  return basename(dataDir).replaceAll(/\W/g, '_');
}
