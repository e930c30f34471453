/** Combines the settings of all services. Each process checks all settings, also the settings of other services. */
import { join, resolve } from 'node:path';
import { ingestOptions, ingestSettings } from '@questlog/ingest/settings';
import { operationsOptions, operationsSettings } from '@questlog/operations/settings';
import { clickhouseOptions, clickhouseSettings } from '@questlog/runtime/clickhouse/clickhouseSettings';
import { parseTrustedProxies, proxySettings } from '@questlog/runtime/http/limits/addresses';
import { kafkaConnection, kafkaSettings } from '@questlog/runtime/log/kafka/kafkaSettings';
import { checkSettings, rejectIf, setting } from '@questlog/runtime/process/config';
import type { ListenAddress } from '@questlog/runtime/process/listener/listenAddress';
import { LOG_FORMATS, LOG_LEVELS } from '@questlog/runtime/process/logger';
import { registryOptions, registrySettings } from '@questlog/runtime/registry/registrySettings';
import { tracingOptions, tracingSettings } from '@questlog/runtime/tracing/tracingSettings';
import { uploadOptions, uploadSettings } from '@questlog/runtime/uploads/uploadSettings';
import Type, { type Static } from 'typebox';
import { BACKUPS } from './dataDir.ts';

export type Settings = Readonly<Static<typeof settings>>;

export const defaultDataDir = '.data';

const processSettings = {
  adminPort: setting.integer({
    env: 'QUESTLOG_ADMIN_PORT',
    default: 8081,
    minimum: 0,
    maximum: 65_535,
    description: 'Port for operators, health checks, and metrics. Never make this port public.',
  }),
  adminHost: setting.text({
    env: 'QUESTLOG_ADMIN_HOST',
    default: '127.0.0.1',
    description: 'Address of the listener for operators.',
  }),
  workers: setting.integer({
    env: 'QUESTLOG_WORKERS',
    default: 1,
    minimum: 1,
    maximum: 64,
    description: 'Number of `ingest` processes on one port. Several processes need Kafka and fixed ports.',
  }),
  adminUrl: setting.optional({
    env: 'QUESTLOG_ADMIN_URL',
    description:
      'Address of the listener for operators, for the commands of `questlog`. If empty, the commands use the address in the credentials file.',
  }),
  url: setting.optional({
    env: 'QUESTLOG_URL',
    description:
      'Address of the listener for games, for the commands of `questlog` and the test events of `operations`. If empty, the commands use the address in the credentials file.',
  }),
  token: setting.secret({
    env: 'QUESTLOG_TOKEN',
    description: 'Token of a game for the commands of `questlog`. Required with `QUESTLOG_URL`.',
  }),
  dataDir: setting.text({
    env: 'QUESTLOG_DATA_DIR',
    default: defaultDataDir,
    description:
      'Folder of the embedded log, the embedded ClickHouse, uploaded files, and the credentials file, for one process at a time.',
  }),
  backupDir: setting.optional({
    env: 'QUESTLOG_BACKUP_DIR',
    description: 'Folder for backups of the embedded engines. If empty: `backups` in the data folder.',
  }),
  demo: setting.choice(['auto', 'on', 'off'], {
    env: 'QUESTLOG_DEMO',
    default: 'auto',
    description: 'Creates a demo tenant, project, session, and token. `auto`: only in `standalone`.',
  }),
  logLevel: setting.choice([...LOG_LEVELS], {
    env: 'QUESTLOG_LOG_LEVEL',
    default: 'info',
    description: 'Log entries below this level are not written.',
  }),
  logFormat: setting.choice([...LOG_FORMATS], {
    env: 'QUESTLOG_LOG_FORMAT',
    default: 'auto',
    description: 'Format of the log on standard error. `auto`: `text` on a terminal, otherwise `json`.',
  }),
  log: setting.choice(['auto', 'embedded', 'kafka'], {
    env: 'QUESTLOG_LOG_ENGINE',
    alias: { env: 'QUESTLOG_LOG', isDeprecated: true },
    default: 'auto',
    description:
      '`embedded` (in the data folder, only for `standalone`) or `kafka`. `auto`: `embedded` for `standalone` without brokers, otherwise `kafka`.',
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
} as const;

export const settings = Type.Object({
  ...ingestSettings,
  ...proxySettings,
  ...operationsSettings,
  ...processSettings,
  ...kafkaSettings,
  ...registrySettings,
  ...clickhouseSettings,
  ...uploadSettings,
  ...tracingSettings,
});

/** Options of all services, and the connections to external engines. An engine is embedded if its connection is undefined. */
export type Options = ReturnType<typeof checkedOptions>;

/** Checks the settings before any engine is opened. @throws StartRefused with the names of all invalid settings */
export function checkedOptions(values: Settings, isStandalone: boolean) {
  const isEmbedded = values.log === 'embedded' || (isStandalone && !isOnKafka(values));
  const hasWorkers = values.workers > 1;
  const checks = {
    log: () =>
      rejectIf(isEmbedded && !isStandalone, `QUESTLOG_LOG_ENGINE: must be kafka here; ${ONLY_STANDALONE}`),
    kafka: () => (isEmbedded ? undefined : kafkaConnection(values)),
    registry: () => (isEmbedded ? undefined : registryOptions(values)),
    workers: () => rejectIf(isEmbedded && hasWorkers, WORKERS_NEED_KAFKA),
    ports: () => rejectIf(hasWorkers && (values.port === 0 || values.adminPort === 0), WORKERS_NEED_PORTS),
    clickhouse: () => clickhouseOptions(values, isStandalone),
    uploads: () => uploadOptions(values, { isEmbedded, isStandalone }),
    ingest: () => ingestOptions(values),
    trustedProxies: () => parseTrustedProxies(values.trustedProxies),
    operations: () => operationsOptions(values),
    tracing: () => tracingOptions(values),
  };
  return checkSettings(checks, 'settings: ');
}

const ONLY_STANDALONE = 'only `questlog standalone` can use embedded engines';
const WORKERS_NEED_KAFKA =
  'QUESTLOG_WORKERS: must be 1 with the embedded log, which only one process can open';
const WORKERS_NEED_PORTS =
  'QUESTLOG_PORT, QUESTLOG_ADMIN_PORT: must not be 0 with QUESTLOG_WORKERS, because a restarted worker would take another port';

export function backupDirOf({ backupDir, dataDir }: Pick<Settings, 'backupDir' | 'dataDir'>): string {
  return resolve(backupDir === '' ? join(dataDir, BACKUPS) : backupDir);
}

/** True if the process uses Kafka. Only `standalone` can use the embedded log instead of Kafka. */
export function isOnKafka({ log, kafkaBrokers }: Settings): boolean {
  return log === 'kafka' || (log === 'auto' && kafkaBrokers !== '');
}

/** Address of the listener for operators, or of the listener for health checks. */
export function addressOfOperators({ adminHost: host, adminPort: port }: Settings): ListenAddress {
  const names = { host: 'QUESTLOG_ADMIN_HOST', port: 'QUESTLOG_ADMIN_PORT' };
  return { host, port, exclusive: true, settings: names };
}
