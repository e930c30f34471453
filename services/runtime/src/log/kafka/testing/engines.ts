/** Engines that the test run has found or started, and the condition for suites that need them. */
import { describe, inject, test } from 'vitest';

export interface Engines {
  /** `given` if the environment names any engine. */
  readonly kind: 'given' | 'docker' | 'local';
  /** `host:port` of the brokers, separated by commas. Three brokers unless given. */
  readonly brokers: string;
  /** URL of the Confluent-compatible API. */
  readonly registryUrl: string;
  /** `http://user:password@host:port/database`. The database may not exist. */
  readonly clickhouseUrl: string;
  /** Data folder of the local stack (`QUESTLOG_DATA_DIR` of its commands). Undefined for other kinds. */
  readonly stackDir?: string;
  /** Undefined for other kinds and without Go. */
  readonly s3?: S3Bucket;
}

export interface S3Server {
  readonly endpoint: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

export interface S3Bucket extends S3Server {
  /** Unique to this run. */
  readonly bucket: string;
}

declare module 'vitest' {
  interface ProvidedContext {
    engines: Engines | undefined;
  }
}

/** Undefined without engines. The reason is printed at the start of the run. */
export const engines = inject('engines');

/** Describes a suite that needs the engines. Without them it is one skipped test. */
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
