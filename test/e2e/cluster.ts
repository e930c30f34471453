/**
 * The product as a deployment runs it. Ingest, operations, linker, and projector are separate processes. They use the Kafka, schema
 * registry, ClickHouse, and bucket of the test run. Each data directory stands for one deployment with its own topics and its
 * own database.
 */
import { basename } from 'node:path';
import { deleteTopics } from '@questlog/runtime/log/kafka/testing/deleteTopics';
import type { S3Bucket } from '@questlog/runtime/log/kafka/testing/engines';

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
  /** Bucket for uploads. Undefined if the deployment has no uploads. */
  readonly s3?: S3Bucket;
}

export function clusterEngines(): ClusterEngines | undefined {
  const text = process.env[ENGINES];
  return text === undefined ? undefined : JSON.parse(text);
}

export function clusterEnvironment(engines: ClusterEngines, dataDir: string): Record<string, string> {
  const name = nameOf(dataDir);
  const clickhouse = new URL(engines.clickhouseUrl);
  clickhouse.pathname = `/${name}`;
  const reader = new URL(engines.clickhouseUrl);
  reader.username = 'reader';
  return {
    KAFKA_BROKERS: engines.brokers,
    SCHEMA_REGISTRY_URL: engines.registryUrl,
    CLICKHOUSE_URL: clickhouse.href,
    CLICKHOUSE_READER_URL: reader.href,
    QUESTLOG_DEMO: 'on',
    ...uploadSettings(engines),
    QUESTLOG_PREFIX: `${name}.`,
    QUESTLOG_PARTITIONS: PARTITIONS,
    QUESTLOG_ADMIN_TOKEN: `qla_of_the_tests_${name}`,
  };
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

/** Deletes the topics and the database of a deployment. The registry keeps the few schemas of the deployment. */
export async function removeDeployment(engines: ClusterEngines, dataDir: string): Promise<void> {
  await deleteTopics(engines.brokers, `${nameOf(dataDir)}.`);
  const { username, password, origin } = new URL(engines.clickhouseUrl);
  const basic = Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`);
  const response = await fetch(origin, {
    method: 'POST',
    headers: { Authorization: `Basic ${basic.toString('base64')}` },
    body: `DROP DATABASE IF EXISTS ${nameOf(dataDir)}`,
  });
  if (!response.ok) throw new Error(await response.text());
}

/** Returns the name of a deployment. The name is valid for a topic, a schema subject, and a database. */
function nameOf(dataDir: string): string {
  return basename(dataDir).replaceAll(/\W/g, '_');
}
