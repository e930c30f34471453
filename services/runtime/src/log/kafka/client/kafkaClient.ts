/** Makes the kafkajs client of a deployment from its settings, and lets it speak through our logger. */
import type { ConnectionOptions } from 'node:tls';
import kafkajs, { type Kafka, type LogEntry, type SASLOptions } from 'kafkajs';
import type { Logger } from '../../../process/logger.ts';
import { TokenRejected } from './oauthTokens.ts';
import {
  patchDisconnects,
  patchMissingLeaders,
  patchReauthentication,
  patchRequestQueueTimer,
} from './patches.ts';

export interface KafkaConnection {
  /** `host:port`; the others are found through them. */
  readonly brokers: readonly string[];
  /** The brokers' logs and quotas know this process by it. */
  readonly clientId: string;
  /** True: TLS with the certificate authorities of Node. */
  readonly ssl?: boolean | ConnectionOptions;
  readonly sasl?: KafkaSasl;
}

export type KafkaSasl =
  | {
      readonly mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512';
      readonly username: string;
      readonly password: string;
    }
  | { readonly mechanism: 'oauthbearer'; token(): Promise<string> };

export function kafkaClient(connection: KafkaConnection, logger: Logger): Kafka {
  patchRequestQueueTimer();
  patchReauthentication();
  patchDisconnects();
  patchMissingLeaders();
  const { brokers, clientId, ssl, sasl } = connection;
  return new kafkajs.Kafka({
    brokers: async () => shuffled(brokers),
    clientId,
    ...(ssl === undefined ? {} : { ssl }),
    ...(sasl === undefined ? {} : { sasl: saslOptions(sasl) }),
    connectionTimeout: CONNECT_LIMIT_MS,
    requestTimeout: REQUEST_LIMIT_MS,
    retry: RETRY,
    logLevel: kafkajs.logLevel.WARN,
    logCreator: () => createLogWriter(logger),
  });
}

const CONNECT_LIMIT_MS = 3000;

/** Longer than an append waits for a dead follower to leave the in-sync replicas (the brokers' session of 9 s). */
const REQUEST_LIMIT_MS = 12_000;

/** About five seconds in all. The first step decides how long a transaction waits for the one before it to finish. */
const RETRY = { initialRetryTime: 10, multiplier: 2, factor: 0.2, maxRetryTime: 1000, retries: 11 };

/** Messages that are no news. */
const IGNORED_MESSAGES = [
  // A transaction waits so for the markers of the one before, and a topic is made so by two processes at once.
  'while another concurrent operation on the same transaction was ongoing',
  'Topic creation errors',
  // A cluster that has just started, and one whose brokers come and go; what lasts is told by who waits for it.
  'The group coordinator is not available',
  'The coordinator is loading',
  'This is not the correct coordinator',
  // Members come and go.
  'The group is rebalancing',
  'Specified group generation id is not valid',
  'The coordinator is not aware of this member',
];

/** kafkajs begins with the first, also after that one took the connection and did not answer. */
function shuffled(brokers: readonly string[]): string[] {
  return brokers
    .map((broker) => ({ broker, rank: Math.random() }))
    .sort((a, b) => a.rank - b.rank)
    .map(({ broker }) => broker);
}

function saslOptions(sasl: KafkaSasl): SASLOptions {
  if (sasl.mechanism !== 'oauthbearer') return sasl;
  return {
    mechanism: 'oauthbearer',
    oauthBearerProvider: async () => ({ value: await sasl.token().catch(withoutRetry) }),
  };
}

/** kafkajs would ask again and again, and hide from who waits why nothing comes. */
function withoutRetry(error: unknown): never {
  if (!(error instanceof TokenRejected)) throw error;
  throw new kafkajs.KafkaJSNonRetriableError(error);
}

/**
 * kafkajs says `error` of what it then repairs by itself, and again for each try. What it cannot repair reaches the
 * caller as an exception.
 */
function createLogWriter(logger: Logger): (entry: LogEntry) => void {
  const loggedAtMs = new Map<string, number>();
  return ({ namespace, log }) => {
    const { message, broker, error, topic, groupId } = log;
    if (IGNORED_MESSAGES.some((text) => message.includes(text) || String(error).includes(text))) return;
    const now = performance.now();
    const key = `${namespace} ${message} ${broker} ${error}`;
    if (now - (loggedAtMs.get(key) ?? Number.NEGATIVE_INFINITY) < REPEAT_INTERVAL_MS) return;
    if (loggedAtMs.size >= MAX_LOGGED_KEYS) loggedAtMs.clear();
    loggedAtMs.set(key, now);
    logger.warn('kafka_client', { namespace, message, broker, cause: error, topic, groupId });
  };
}

const REPEAT_INTERVAL_MS = 10_000;
const MAX_LOGGED_KEYS = 200;
