/** Engines that the test run has found or started. Suites that need the engines use `describeKafka`. */
import { describe, inject, test } from 'vitest';

export interface Engines {
  /** Origin of the engines. The value is `given` if the environment names an engine. */
  readonly kind: 'given' | 'docker' | 'local';
  /**
   * Addresses of the brokers as `host:port`, separated by commas. There are three brokers unless the environment names the
   * brokers.
   */
  readonly brokers: string;
  /** URL of the Confluent-compatible API. */
  readonly registryUrl: string;
  /** URL of ClickHouse: `http://user:password@host:port/database`. The database may not exist. */
  readonly clickhouseUrl: string;
  /** Data folder of the local stack (`QUESTLOG_DATA_DIR` of its commands). Undefined for other kinds of engines. */
  readonly stackDir?: string;
  /** S3 bucket. Undefined for other kinds of engines and if Go is not installed. */
  readonly s3?: S3Bucket;
  readonly tables: MigratedTables;
  /** ClickHouse cluster that the product uses instead of `clickhouseUrl`. */
  readonly clickhouseCluster?: ClickHouseAddresses;
}

/** Name of a ClickHouse cluster, and the addresses of its nodes with user and password. */
export interface ClickHouseAddresses {
  readonly name: string;
  readonly nodes: readonly string[];
  /** Addresses of the nodes with a read-only account. */
  readonly readers?: readonly string[];
}

/** Statements that create the empty tables of a migrated database and record the migrations as applied. */
export interface MigratedTables {
  /** Name of the database in the statements. */
  readonly database: string;
  readonly statements: readonly string[];
}

export interface S3Server {
  readonly endpoint: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

export interface S3Bucket extends S3Server {
  /** Name of the bucket, which is unique to this run. */
  readonly bucket: string;
}

declare module 'vitest' {
  interface ProvidedContext {
    engines: Engines | undefined;
  }
}

/** Engines of this run. Undefined if there are no engines. The reason is printed at the start of the run. */
export const engines = inject('engines');

/** Describes a suite that needs the engines. If there are no engines, the suite is one skipped test. */
export function describeKafka(name: string, suite: (engines: Engines) => void): void {
  if (engines !== undefined) {
    const there = engines;
    describe(name, () => suite(there));
    return;
  }
  describe.skip(name, () => {
    test('needs Kafka, a schema registry and ClickHouse', () => {});
  });
}
