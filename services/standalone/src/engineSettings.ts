/** Which log, schema registry and ClickHouse a process stands on, and how it reaches them. */
import { setting } from '@questlog/runtime/process/config';

const PEM = 'in PEM; usually given as a file, by the name with `_FILE`';

const kafkaSettings = {
  log: setting.choice(['auto', 'embedded', 'kafka'], {
    env: 'QUESTLOG_LOG',
    default: 'auto',
    description:
      'The log: `embedded` (in the data folder, `standalone` only) or `kafka`; `auto`: `kafka` where brokers are given, and for a service alone.',
  }),
  prefix: setting.optional({
    env: 'QUESTLOG_PREFIX',
    description:
      'Before every topic, consumer group, transactional id and registry subject: several Questlogs on one Kafka.',
  }),
  partitions: setting.integer({
    env: 'QUESTLOG_PARTITIONS',
    default: 0,
    minimum: 0,
    maximum: 1000,
    description:
      'Partitions of the topics, fixed for good by the first start. 0: 4 on the embedded log, 12 on Kafka.',
  }),
  kafkaBrokers: setting.optional({
    env: 'KAFKA_BROKERS',
    description: 'Bootstrap brokers, `host:port`, separated by commas.',
  }),
  kafkaReplicationFactor: setting.integer({
    env: 'KAFKA_REPLICATION_FACTOR',
    default: -1,
    minimum: -1,
    maximum: 10,
    description: 'Replicas of the topics that a start creates; -1: the brokers’ own default.',
  }),
  kafkaTls: setting.choice(['off', 'on'], {
    env: 'KAFKA_TLS',
    default: 'off',
    description: 'Whether the brokers are spoken to over TLS.',
  }),
  kafkaTlsCa: setting.optional({
    env: 'KAFKA_TLS_CA',
    description: `Certificates that the brokers’ are checked against (empty: the system’s), ${PEM}.`,
  }),
  kafkaTlsCertificate: setting.optional({
    env: 'KAFKA_TLS_CERT',
    description: `Certificate of this client for mutual TLS, ${PEM}.`,
  }),
  kafkaTlsKey: setting.secret({ env: 'KAFKA_TLS_KEY', description: `Key of that certificate, ${PEM}.` }),
  kafkaSasl: setting.choice(['none', 'plain', 'scram-sha-256', 'scram-sha-512', 'oauthbearer'], {
    env: 'KAFKA_SASL_MECHANISM',
    default: 'none',
    description: 'How this client shows who it is.',
  }),
  kafkaUsername: setting.optional({
    env: 'KAFKA_SASL_USERNAME',
    description: 'For `plain` and `scram-*`; for `oauthbearer` the client id.',
  }),
  kafkaPassword: setting.secret({
    env: 'KAFKA_SASL_PASSWORD',
    description: 'For `plain` and `scram-*`; for `oauthbearer` the client secret.',
  }),
  kafkaOauthTokenUrl: setting.optional({
    env: 'KAFKA_OAUTH_TOKEN_URL',
    description:
      'For `oauthbearer`: where tokens are had by the client credentials grant (RFC 6749, section 4.4).',
  }),
  kafkaOauthScope: setting.optional({
    env: 'KAFKA_OAUTH_SCOPE',
    description: 'For `oauthbearer`: the scope that is asked for.',
  }),
} as const;

const registrySettings = {
  registryUrl: setting.optional({
    env: 'SCHEMA_REGISTRY_URL',
    description:
      'A registry with Confluent’s API; needed on Kafka. (The embedded log keeps schemas in a topic of its own.)',
  }),
  registryUsername: setting.optional({
    env: 'SCHEMA_REGISTRY_USERNAME',
    description: 'For basic authentication; goes before one in the address.',
  }),
  registryPassword: setting.secret({
    env: 'SCHEMA_REGISTRY_PASSWORD',
    description: 'For basic authentication; goes before one in the address.',
  }),
  registryTlsCa: setting.optional({
    env: 'SCHEMA_REGISTRY_TLS_CA',
    description: `Certificates that the registry’s is checked against (empty: the system’s), ${PEM}.`,
  }),
} as const;

const clickhouseSettings = {
  clickhouseUrl: setting.optional({
    env: 'CLICKHOUSE_URL',
    description:
      'Its HTTP interface; may hold user, password and database (`http://user:password@host:8123/database`). Empty: the embedded one, for `standalone` only.',
  }),
  clickhouseUsername: setting.optional({
    env: 'CLICKHOUSE_USERNAME',
    description: 'Goes before one in the address; `default` where neither is given.',
  }),
  clickhousePassword: setting.secret({
    env: 'CLICKHOUSE_PASSWORD',
    description: 'Goes before one in the address.',
  }),
  clickhouseDatabase: setting.optional({
    env: 'CLICKHOUSE_DATABASE',
    description: 'Goes before one in the address; `questlog` where neither is given.',
  }),
  clickhouseTlsCa: setting.optional({
    env: 'CLICKHOUSE_TLS_CA',
    description: `Certificates that ClickHouse’s is checked against (empty: the system’s), ${PEM}.`,
  }),
} as const;

export const engineSettings = { ...kafkaSettings, ...registrySettings, ...clickhouseSettings } as const;
