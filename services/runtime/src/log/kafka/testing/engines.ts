/** The engines that the run has found or started for its tests, and the gate of the suites that need them. */
import { describe, inject, test } from 'vitest';

export interface Engines {
  /** Given: some or all of it was named in the environment. */
  readonly kind: 'given' | 'docker' | 'local';
  /** `host:port` of three brokers (as many as were given, otherwise), separated by commas. */
  readonly brokers: string;
  /** The URL of the Confluent-compatible API. */
  readonly registryUrl: string;
  /** `http://user:password@host:port/database`; the database need not be there. */
  readonly clickhouseUrl: string;
  /** The data folder of the local stack (`QUESTLOG_DATA_DIR` for its commands); not there for other kinds. */
  readonly stackDir?: string;
  /** Not there for other kinds, and where Go is missing. */
  readonly s3?: S3Bucket;
}

export interface S3Server {
  readonly endpoint: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

export interface S3Bucket extends S3Server {
  /** Of this run alone. */
  readonly bucket: string;
}

declare module 'vitest' {
  interface ProvidedContext {
    engines: Engines | undefined;
  }
}

/** Undefined where there are none; why was printed at the start of the run. */
export const engines = inject('engines');

/** A suite that runs where there are engines. Its body is not run without them, and shows as one skipped test. */
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
