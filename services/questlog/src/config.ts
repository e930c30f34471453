/** Settings of all services. A service ignores the settings of other services. */
import { join, resolve } from 'node:path';
import { setting } from '@questlog/runtime/process/config';
import { LOG_FORMATS, LOG_LEVELS } from '@questlog/runtime/process/logger';
import { DEFAULT_MAX_ERASED_IDS } from '@questlog/schemas/erased';
import { DEFAULT_MAX_SESSION_LINKS } from '@questlog/schemas/topics/reportLinks';
import Type, { type Static } from 'typebox';
import { BACKUPS } from './dataDir.ts';
import { engineSettings } from './engines/engineSettings.ts';
import { jwtSettings } from './jwt/jwtSettings.ts';

export type Settings = Readonly<Static<typeof settings>>;

export const defaultDataDir = '.data';

export const settings = Type.Object({
  port: setting.integer({
    env: 'QUESTLOG_PORT',
    default: 8080,
    minimum: 0,
    maximum: 65_535,
    description: 'Port for games; 0: any free port.',
  }),
  adminPort: setting.integer({
    env: 'QUESTLOG_ADMIN_PORT',
    default: 8081,
    minimum: 0,
    maximum: 65_535,
    description: 'Port for operators, health checks, and metrics. Never make it public.',
  }),
  host: setting.text({
    env: 'QUESTLOG_HOST',
    default: '127.0.0.1',
    description: 'Address of the listener for games.',
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
    description:
      'Number of `ingest` processes on one port. Each process uses one core and has its own caches. More than one process needs Kafka and fixed ports.',
  }),
  publicUrl: setting.optional({
    env: 'QUESTLOG_PUBLIC_URL',
    description:
      'Public address of the listener for games behind a proxy (`https://telemetry.example.com`). `uploadUrl` starts with it. Empty: `http://` and the `Host` header of the request.',
  }),
  adminAllowedHosts: setting.optional({
    env: 'QUESTLOG_ADMIN_ALLOWED_HOSTS',
    description:
      'Additional host names of the listener for operators, separated by commas. A request with another `Host` is rejected, except for health checks and metrics.',
  }),
  corsOrigins: setting.optional({
    env: 'QUESTLOG_CORS_ORIGINS',
    default: '*',
    description:
      'Origins of web pages that can use the listener for games, separated by commas (`https://game.example`); `*`: all origins, `off`: none.',
  }),
  trustedProxies: setting.optional({
    env: 'QUESTLOG_TRUSTED_PROXIES',
    description:
      'Addresses and networks of trusted proxies in front of the listener for games, separated by commas. Their `X-Forwarded-For` header determines the client’s address for the limits per address.',
  }),
  docs: setting.choice(['on', 'off'], {
    env: 'QUESTLOG_DOCS',
    default: 'on',
    description: 'Serves the API documentation (`GET /docs`) on the listener for games, without a token.',
  }),
  adminToken: setting.secret({
    env: 'QUESTLOG_ADMIN_TOKEN',
    description:
      'Bearer token of operators, at least 16 characters. Required by `operations`; `standalone` creates one.',
  }),
  adminUrl: setting.optional({
    env: 'QUESTLOG_ADMIN_URL',
    description:
      'Address of the listener for operators, for the commands of `questlog`. Empty: the address in the credentials file in `QUESTLOG_DATA_DIR`.',
  }),
  url: setting.optional({
    env: 'QUESTLOG_URL',
    description:
      'Address of the listener for games, for the commands of `questlog` and for the test events of `operations`. Empty: the address in the credentials file in `QUESTLOG_DATA_DIR`.',
  }),
  token: setting.secret({
    env: 'QUESTLOG_TOKEN',
    description: 'Token of a game for the commands of `questlog`. Required with `QUESTLOG_URL`.',
  }),
  dataDir: setting.text({
    env: 'QUESTLOG_DATA_DIR',
    default: defaultDataDir,
    description:
      'Folder of the embedded log, the embedded ClickHouse, uploaded files, and the credentials file. Only one process can use it at a time.',
  }),
  backupDir: setting.optional({
    env: 'QUESTLOG_BACKUP_DIR',
    description:
      'Folder for backups of the embedded engines. Empty: `backups` in the data folder. Another disk is safer.',
  }),
  revision: setting.choice(['A', 'B'], {
    env: 'QUESTLOG_REVISION',
    default: 'A',
    description: 'Revision of the contract for projects without a revision.',
  }),
  reportLinks: setting.integer({
    env: 'QUESTLOG_REPORT_LINKS',
    default: DEFAULT_MAX_SESSION_LINKS,
    minimum: 0,
    maximum: 1_000_000,
    description:
      'Maximum links of a report by its session and window, the first in the log. Events that the report names are linked in addition.',
  }),
  erasedIds: setting.integer({
    env: 'QUESTLOG_ERASED_IDS',
    default: DEFAULT_MAX_ERASED_IDS,
    minimum: 0,
    maximum: 10_000_000,
    description:
      'Maximum sessions and reports that can ever be erased by id. Every process keeps their ids in memory, about 100 bytes each.',
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
  ...jwtSettings,
  ...engineSettings,
});

export function backupDirOf({ backupDir, dataDir }: Pick<Settings, 'backupDir' | 'dataDir'>): string {
  return resolve(backupDir === '' ? join(dataDir, BACKUPS) : backupDir);
}

/** True if the process uses Kafka. Only `standalone` can use the embedded log instead of Kafka. */
export function isOnKafka({ log, kafkaBrokers }: Settings): boolean {
  return log === 'kafka' || (log === 'auto' && kafkaBrokers !== '');
}

export function addressesOf({ host, port, adminHost, adminPort, clickhousePort }: Settings) {
  const ofGames = { host: 'QUESTLOG_HOST', port: 'QUESTLOG_PORT' };
  const ofOperators = { host: 'QUESTLOG_ADMIN_HOST', port: 'QUESTLOG_ADMIN_PORT' };
  return {
    toGames: { host, port, settings: ofGames },
    toOperators: { host: adminHost, port: adminPort, exclusive: true, settings: ofOperators },
    ofClickHouse: {
      ...{ host: '127.0.0.1', port: clickhousePort },
      settings: { host: 'QUESTLOG_CLICKHOUSE_PORT', port: 'QUESTLOG_CLICKHOUSE_PORT' },
    },
  };
}
