/** Settings of the log, the schema registry, ClickHouse, and the store of uploaded files. */
import { setting } from '@questlog/runtime/process/config';

const PEM = 'in PEM';

const kafkaSettings = {
  log: setting.choice(['auto', 'embedded', 'kafka'], {
    env: 'QUESTLOG_LOG_ENGINE',
    alias: { env: 'QUESTLOG_LOG', isDeprecated: true },
    default: 'auto',
    description:
      '`embedded` (in the data folder, only for `standalone`) or `kafka`. `auto`: `kafka` if brokers are set, and for every other service.',
  }),
  prefix: setting.optional({
    env: 'QUESTLOG_PREFIX',
    description:
      'Prefix of every topic, group, transactional id, and registry subject, so that deployments can share a Kafka cluster.',
  }),
  partitions: setting.integer({
    env: 'QUESTLOG_PARTITIONS',
    default: 0,
    minimum: 0,
    maximum: 1000,
    description: 'Partitions of the topics, fixed at the first start. 0: 4 on the embedded log, 12 on Kafka.',
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
    description: 'Replication factor of new topics; -1: the brokers’ default.',
  }),
  kafkaTls: setting.choice(['off', 'on'], {
    env: 'KAFKA_TLS',
    default: 'off',
    description: 'TLS to the brokers.',
  }),
  kafkaTlsCa: setting.optional({
    env: 'KAFKA_TLS_CA',
    description: `Certificate authorities of the brokers’ certificates, ${PEM}. Empty: Node’s list.`,
  }),
  kafkaTlsCertificate: setting.optional({
    env: 'KAFKA_TLS_CERT',
    description: `Client certificate for mutual TLS, ${PEM}.`,
  }),
  kafkaTlsKey: setting.secret({
    env: 'KAFKA_TLS_KEY',
    description: `Key of the client certificate, ${PEM}.`,
  }),
  kafkaSasl: setting.choice(['none', 'plain', 'scram-sha-256', 'scram-sha-512', 'oauthbearer'], {
    env: 'KAFKA_SASL_MECHANISM',
    default: 'none',
    description: 'SASL mechanism of the client.',
  }),
  kafkaUsername: setting.optional({
    env: 'KAFKA_SASL_USERNAME',
    description: 'User, or the client id for `oauthbearer`.',
  }),
  kafkaPassword: setting.secret({
    env: 'KAFKA_SASL_PASSWORD',
    description: 'Password, or the client secret for `oauthbearer`.',
  }),
  kafkaOauthTokenUrl: setting.optional({
    env: 'KAFKA_OAUTH_TOKEN_URL',
    description: 'For `oauthbearer`: token endpoint of the client credentials grant (RFC 6749, section 4.4).',
  }),
  kafkaOauthScope: setting.optional({
    env: 'KAFKA_OAUTH_SCOPE',
    description: 'For `oauthbearer`: the requested scope.',
  }),
} as const;

const registrySettings = {
  registryUrl: setting.optional({
    env: 'SCHEMA_REGISTRY_URL',
    description:
      'Address of a registry with Confluent’s API. Required with Kafka. The embedded log keeps schemas in a topic.',
  }),
  registryUsername: setting.optional({
    env: 'SCHEMA_REGISTRY_USERNAME',
    description: 'For basic authentication. Overrides the value in the address.',
  }),
  registryPassword: setting.secret({
    env: 'SCHEMA_REGISTRY_PASSWORD',
    description: 'For basic authentication. Overrides the value in the address.',
  }),
  registryTlsCa: setting.optional({
    env: 'SCHEMA_REGISTRY_TLS_CA',
    description: `Certificate authorities of the registry’s certificate, ${PEM}. Empty: Node’s list.`,
  }),
} as const;

const clickhouseSettings = {
  clickhouseUrl: setting.optional({
    env: 'CLICKHOUSE_URL',
    description:
      'ClickHouse’s HTTP interface (`http://user:password@host:8123/database`). Empty: the embedded ClickHouse, only for `standalone`.',
  }),
  clickhouseUsername: setting.optional({
    env: 'CLICKHOUSE_USERNAME',
    alias: { env: 'CLICKHOUSE_USER', isDeprecated: false },
    description: 'Overrides the user in the address; `default` if neither is set.',
  }),
  clickhousePassword: setting.secret({
    env: 'CLICKHOUSE_PASSWORD',
    description: 'Overrides the password in the address.',
  }),
  clickhouseDatabase: setting.optional({
    env: 'CLICKHOUSE_DATABASE',
    description: 'Overrides the database in the address; `questlog` if neither is set.',
  }),
  clickhousePort: setting.integer({
    env: 'QUESTLOG_CLICKHOUSE_PORT',
    default: 0,
    minimum: 0,
    maximum: 65_535,
    description:
      'Port of the embedded ClickHouse on 127.0.0.1. 0: the port of the last start if it is free, otherwise any free port.',
  }),
  clickhouseReaderUrl: setting.optional({
    env: 'CLICKHOUSE_READER_URL',
    description:
      'Address of the same ClickHouse with a read-only account, for `POST /admin/sql`. The embedded ClickHouse creates its own account.',
  }),
  clickhouseTlsCa: setting.optional({
    env: 'CLICKHOUSE_TLS_CA',
    description: `Certificate authorities of ClickHouse’s certificate, ${PEM}. Empty: Node’s list.`,
  }),
} as const;

const uploadSettings = {
  uploads: setting.choice(['auto', 'folder', 's3', 'off'], {
    env: 'QUESTLOG_UPLOADS',
    default: 'auto',
    description:
      'Store of uploaded files: `folder` (in the data folder, only for `standalone`), `s3`, or `off`. `auto`: `s3` if a bucket is set, otherwise `folder` with the embedded log.',
  }),
  uploadSigningKey: setting.secret({
    env: 'QUESTLOG_UPLOAD_SIGNING_KEY',
    description:
      'Key that signs the addresses of uploads to the folder, at least 32 characters. Empty: a generated key, which is stored in the folder.',
  }),
  s3Bucket: setting.optional({
    env: 'QUESTLOG_S3_BUCKET',
    description: 'Bucket of uploaded files. It must exist and allow get, put, delete, and list.',
  }),
  s3Endpoint: setting.optional({
    env: 'QUESTLOG_S3_ENDPOINT',
    description:
      'Address of an S3-compatible service, used with path-style requests (`https://host/bucket`). Empty: AWS.',
  }),
  s3PublicEndpoint: setting.optional({
    env: 'QUESTLOG_S3_PUBLIC_ENDPOINT',
    description: 'Address of the S3 service for games. Empty: `QUESTLOG_S3_ENDPOINT`.',
  }),
  s3Region: setting.text({
    env: 'QUESTLOG_S3_REGION',
    default: 'us-east-1',
    description: 'Region of the bucket.',
  }),
  s3AccessKeyId: setting.optional({
    env: 'QUESTLOG_S3_ACCESS_KEY_ID',
    description: 'Access key id. Empty: the credentials that the AWS SDK finds on the machine.',
  }),
  s3SecretAccessKey: setting.secret({
    env: 'QUESTLOG_S3_SECRET_ACCESS_KEY',
    description: 'Secret of the access key.',
  }),
} as const;

export const engineSettings = {
  ...kafkaSettings,
  ...registrySettings,
  ...clickhouseSettings,
  ...uploadSettings,
} as const;
