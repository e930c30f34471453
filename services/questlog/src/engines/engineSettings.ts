/** Which log, schema registry, ClickHouse and store of files a process stands on, and how it reaches them. */
import { setting } from '@questlog/runtime/process/config';

const PEM = 'in PEM';

const kafkaSettings = {
  log: setting.choice(['auto', 'embedded', 'kafka'], {
    env: 'QUESTLOG_LOG_ENGINE',
    alias: { env: 'QUESTLOG_LOG', isDeprecated: true },
    default: 'auto',
    description:
      '`embedded` (in the data folder, `standalone` only) or `kafka`; `auto`: `kafka` if brokers are set, and for a service alone.',
  }),
  prefix: setting.optional({
    env: 'QUESTLOG_PREFIX',
    description:
      'Stands before every topic, group, transactional id and registry subject, so that deployments can share a Kafka.',
  }),
  partitions: setting.integer({
    env: 'QUESTLOG_PARTITIONS',
    default: 0,
    minimum: 0,
    maximum: 1000,
    description: 'Partitions of the topics, fixed by the first start. 0: 4 on the embedded log, 12 on Kafka.',
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
    description: 'Replicas of the topics that a start creates; -1: the brokers’ default.',
  }),
  kafkaTls: setting.choice(['off', 'on'], {
    env: 'KAFKA_TLS',
    default: 'off',
    description: 'TLS to the brokers.',
  }),
  kafkaTlsCa: setting.optional({
    env: 'KAFKA_TLS_CA',
    description: `Authorities that sign the brokers’ certificates (empty: Node’s list), ${PEM}.`,
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
    description: 'How this client authenticates.',
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
      'A registry with Confluent’s API; required on Kafka. The embedded log keeps schemas in a topic.',
  }),
  registryUsername: setting.optional({
    env: 'SCHEMA_REGISTRY_USERNAME',
    description: 'For basic authentication; overrides the address.',
  }),
  registryPassword: setting.secret({
    env: 'SCHEMA_REGISTRY_PASSWORD',
    description: 'For basic authentication; overrides the address.',
  }),
  registryTlsCa: setting.optional({
    env: 'SCHEMA_REGISTRY_TLS_CA',
    description: `Authorities that sign the registry’s certificate (empty: Node’s list), ${PEM}.`,
  }),
} as const;

const clickhouseSettings = {
  clickhouseUrl: setting.optional({
    env: 'CLICKHOUSE_URL',
    description:
      'ClickHouse’s HTTP interface (`http://user:password@host:8123/database`). Empty: embedded, `standalone` only.',
  }),
  clickhouseUsername: setting.optional({
    env: 'CLICKHOUSE_USERNAME',
    alias: { env: 'CLICKHOUSE_USER', isDeprecated: false },
    description: 'Overrides the address; `default` if neither is set.',
  }),
  clickhousePassword: setting.secret({
    env: 'CLICKHOUSE_PASSWORD',
    description: 'Overrides the address.',
  }),
  clickhouseDatabase: setting.optional({
    env: 'CLICKHOUSE_DATABASE',
    description: 'Overrides the address; `questlog` if neither is set.',
  }),
  clickhousePort: setting.integer({
    env: 'QUESTLOG_CLICKHOUSE_PORT',
    default: 0,
    minimum: 0,
    maximum: 65_535,
    description:
      'Port of the embedded ClickHouse on 127.0.0.1. 0 takes any free one, and later that of the last start where it is free.',
  }),
  clickhouseReaderUrl: setting.optional({
    env: 'CLICKHOUSE_READER_URL',
    description:
      'The same ClickHouse by an account that only reads, for `POST /admin/sql`. The embedded one has its own.',
  }),
  clickhouseTlsCa: setting.optional({
    env: 'CLICKHOUSE_TLS_CA',
    description: `Authorities that sign ClickHouse’s certificate (empty: Node’s list), ${PEM}.`,
  }),
} as const;

const uploadSettings = {
  uploads: setting.choice(['auto', 'folder', 's3', 'off'], {
    env: 'QUESTLOG_UPLOADS',
    default: 'auto',
    description:
      'Where uploaded files lie: `folder` (in the data folder, for one ingest), `s3`, or nowhere (`off`). `auto`: `s3` if a bucket is set, otherwise `folder` with the embedded log.',
  }),
  uploadSigningKey: setting.secret({
    env: 'QUESTLOG_UPLOAD_SIGNING_KEY',
    description:
      'Signs the addresses of uploads to the folder, at least 32 characters. Empty: one is made and kept in the folder.',
  }),
  s3Bucket: setting.optional({
    env: 'QUESTLOG_S3_BUCKET',
    description: 'Bucket of uploaded files. It must exist; get, put, delete and list must be allowed.',
  }),
  s3Endpoint: setting.optional({
    env: 'QUESTLOG_S3_ENDPOINT',
    description:
      'Address of a service with the API of S3, asked by path (`https://host/bucket`). Empty: AWS.',
  }),
  s3PublicEndpoint: setting.optional({
    env: 'QUESTLOG_S3_PUBLIC_ENDPOINT',
    description: 'Where games reach that service. Empty: at `QUESTLOG_S3_ENDPOINT`.',
  }),
  s3Region: setting.text({
    env: 'QUESTLOG_S3_REGION',
    default: 'us-east-1',
    description: 'Region of the bucket.',
  }),
  s3AccessKeyId: setting.optional({
    env: 'QUESTLOG_S3_ACCESS_KEY_ID',
    description: 'Empty: the machine’s own credentials, as the AWS SDK finds them.',
  }),
  s3SecretAccessKey: setting.secret({
    env: 'QUESTLOG_S3_SECRET_ACCESS_KEY',
    description: 'Secret of that access key.',
  }),
} as const;

export const engineSettings = {
  ...kafkaSettings,
  ...registrySettings,
  ...clickhouseSettings,
  ...uploadSettings,
} as const;
