/** Creates the kafkajs client from the settings. kafkajs writes its log messages to Questlog's logger. */
import type { ConnectionOptions } from 'node:tls';
import kafkajs, { type Kafka, type LogEntry, type SASLOptions } from 'kafkajs';
import { BoundedMap } from '../../../process/boundedMap.ts';
import type { Logger } from '../../../process/logger.ts';
import { shuffled } from '../../../process/shuffled.ts';
import { TokenRejected } from './oauthTokens.ts';
import {
  patchDisconnects,
  patchMissingLeaders,
  patchReauthentication,
  patchRequestQueueTimer,
} from './patches.ts';

export interface KafkaConnection {
  /** Bootstrap brokers, as `host:port`. */
  readonly brokers: readonly string[];
  readonly clientId: string;
  /** True if the connection uses TLS and trusts the certificate authorities of Node. */
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
    // kafkajs tries the first broker of the list first, even if this broker does not respond.
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

/** Timeout of a request. The timeout exceeds the 9 s after which Kafka removes a dead follower from the in-sync replicas. */
const REQUEST_LIMIT_MS = 12_000;

/** Short pauses, because a longer first pause would delay consecutive transactions. The retries of a request take about 5 s. */
const RETRY = { initialRetryTime: 10, multiplier: 2, factor: 0.2, maxRetryTime: 1000, retries: 11 };

/** kafkajs messages that contain one of these texts are not logged, because the messages report normal situations. */
const IGNORED_MESSAGES = [
  // Messages of errors that Kafka reports if the previous transaction is not complete or two processes create the same topic.
  'while another concurrent operation on the same transaction was ongoing',
  'Topic creation errors',
  // Errors that are normal while a broker starts or learns of a new topic. If an error persists, Questlog logs its own message
  // about the outage.
  'This server does not host this topic-partition',
  'The group coordinator is not available',
  'The coordinator is loading',
  'This is not the correct coordinator',
  'The group is rebalancing',
  'Specified group generation id is not valid',
  'The coordinator is not aware of this member',
];

function saslOptions(sasl: KafkaSasl): SASLOptions {
  if (sasl.mechanism !== 'oauthbearer') return sasl;
  return {
    mechanism: 'oauthbearer',
    oauthBearerProvider: async () => ({ value: await sasl.token().catch(withoutRetry) }),
  };
}

/** Stops kafkajs's retries after the token server has rejected the request, so that the caller receives the reason. */
function withoutRetry(error: unknown): never {
  if (!(error instanceof TokenRejected)) throw error;
  throw new kafkajs.KafkaJSNonRetriableError(error);
}

/** Logs kafkajs's errors as warnings, because kafkajs retries after errors. The caller receives final errors as exceptions. */
function createLogWriter(logger: Logger): (entry: LogEntry) => void {
  const loggedAtMs = new BoundedMap<string, number>(MAX_LOGGED_KEYS);
  return ({ namespace, log }) => {
    const { message, broker, error, topic, groupId } = log;
    if (IGNORED_MESSAGES.some((text) => message.includes(text) || String(error).includes(text))) return;
    const now = performance.now();
    const key = `${namespace} ${message} ${broker} ${error}`;
    if (now - (loggedAtMs.get(key) ?? Number.NEGATIVE_INFINITY) < REPEAT_INTERVAL_MS) return;
    loggedAtMs.set(key, now);
    logger.warn('kafka_client', { namespace, message, broker, cause: error, topic, groupId });
  };
}

const REPEAT_INTERVAL_MS = 10_000;
const MAX_LOGGED_KEYS = 200;
