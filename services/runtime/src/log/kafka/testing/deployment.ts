/** Deployments for test suites on a shared Kafka cluster. */
import { randomUUID } from 'node:crypto';
import kafkajs, { type Admin, type Kafka } from 'kafkajs';
import { afterAll, beforeAll, onTestFinished } from 'vitest';
import { type Logger, silentLogger } from '../../../process/logger.ts';
import { aName } from '../../contract/harness.ts';
import type { Log, TopicSpec } from '../../log.ts';
import { openKafkaLog } from '../kafkaLog.ts';
import { deleteTopics } from './deleteTopics.ts';

export interface Deployments {
  /** Plain client of kafkajs. */
  readonly kafka: Kafka;
  /** Part of the cluster names that is unique to the suite. */
  readonly run: string;
  aPrefix(): string;
  /** Opens a log, with a new deployment if no prefix is given. The log is closed at the end of the test. */
  aLog(prefix?: string, of?: { replicationFactor?: number; logger?: Logger }): Promise<Log>;
  admin<T>(use: (admin: Admin) => Promise<T>): Promise<T>;
}

/**
 * Returns functions that create deployments. Deletes their topics after the suite.
 * @param addresses the brokers as `host:port`, separated by commas.
 */
export function deployments(addresses: string): Deployments {
  const run = `log-${randomUUID()}-`;
  const brokers = addresses.split(',');
  const kafka = new kafkajs.Kafka({ brokers, logLevel: kafkajs.logLevel.NOTHING });
  const aPrefix = () => `${run}${randomUUID()}-`;

  afterAll(() => deleteTopics(addresses, run));

  return {
    kafka,
    run,
    aPrefix,
    aLog: async (prefix = aPrefix(), { replicationFactor = -1, logger = silentLogger } = {}) => {
      const connection = { brokers, clientId: 'questlog-tests' };
      const log = await openKafkaLog({ connection, prefix, replicationFactor, logger });
      onTestFinished(() => log.close());
      return log;
    },
    admin: async (use) => {
      const one = kafka.admin();
      await one.connect();
      return use(one).finally(() => one.disconnect());
    },
  };
}

/** One log for a whole suite, with a client and an admin client. */
export interface OneDeployment {
  readonly kafka: Kafka;
  /** Log of the suite. Available after the first `beforeAll`. */
  readonly log: Log;
  readonly admin: Admin;
  readonly prefix: string;
  nameOf(name: string): string;
}

export function oneDeployment(addresses: string): OneDeployment {
  const prefix = `log-${randomUUID()}-`;
  const brokers = addresses.split(',');
  const kafka = new kafkajs.Kafka({ brokers, logLevel: kafkajs.logLevel.NOTHING });
  const admin = kafka.admin();
  let opened: Log | undefined;

  beforeAll(async () => {
    const connection = { brokers, clientId: 'questlog-tests' };
    opened = await openKafkaLog({ connection, prefix, replicationFactor: -1, logger: silentLogger });
    await admin.connect();
  });
  afterAll(async () => {
    await Promise.all([opened?.close(), admin.disconnect()]);
    await deleteTopics(addresses, prefix);
  });
  return {
    kafka,
    admin,
    prefix,
    nameOf: (name) => `${prefix}${name}`,
    get log() {
      if (opened === undefined) throw new Error('the log is not open yet');
      return opened;
    },
  };
}

export function aSpec(spec: Partial<TopicSpec> = {}): TopicSpec {
  return {
    name: aName('topic'),
    partitions: 1,
    cleanup: { policy: 'delete', retentionMs: 3_600_000 },
    maxRecordBytes: 1_000_000,
    ...spec,
  };
}

export async function aTopic(log: Log, spec: Partial<TopicSpec> = {}): Promise<string> {
  const topic = aSpec(spec);
  await log.ensureTopics([topic]);
  return topic.name;
}
