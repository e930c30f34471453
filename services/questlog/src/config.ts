/** The settings of every service. A service ignores those that it does not use, so that all can share one environment. */
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
    description: 'Port for games; 0 takes any free one.',
  }),
  adminPort: setting.integer({
    env: 'QUESTLOG_ADMIN_PORT',
    default: 8081,
    minimum: 0,
    maximum: 65_535,
    description: 'Port for operators, health and metrics. Never make it public.',
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
      'Processes of `ingest` on one port, each on a core and with the memory of an ingest of its own. More than one needs Kafka, and ports other than 0.',
  }),
  publicUrl: setting.optional({
    env: 'QUESTLOG_PUBLIC_URL',
    description:
      'Where games reach the listener (`https://telemetry.example.com`), if behind a proxy: `uploadUrl` begins with it. Empty: with `http://` and the `Host` of the request.',
  }),
  adminAllowedHosts: setting.optional({
    env: 'QUESTLOG_ADMIN_ALLOWED_HOSTS',
    description:
      'Further names of the operators’ listener, separated by commas. Another `Host` is refused, except for health and metrics.',
  }),
  corsOrigins: setting.optional({
    env: 'QUESTLOG_CORS_ORIGINS',
    default: '*',
    description:
      'Origins whose web pages may use the listener for games, separated by commas (`https://game.example`); `*`: every one, `off`: none.',
  }),
  trustedProxies: setting.optional({
    env: 'QUESTLOG_TRUSTED_PROXIES',
    description:
      'Addresses and networks of trusted proxies in front of the listener for games, separated by commas. Their `X-Forwarded-For` gives the client’s address for the limits per address, with and without a valid token.',
  }),
  docs: setting.choice(['on', 'off'], {
    env: 'QUESTLOG_DOCS',
    default: 'on',
    description: 'Serves the page of the API, `GET /docs`, to whoever reaches the listener for games.',
  }),
  adminToken: setting.secret({
    env: 'QUESTLOG_ADMIN_TOKEN',
    description:
      'Operators’ bearer token, at least 16 characters. `ingest` alone needs it; `standalone` makes one.',
  }),
  adminUrl: setting.optional({
    env: 'QUESTLOG_ADMIN_URL',
    description:
      'Where the commands of `questlog` reach the listener for operators. Empty: as the credentials in `QUESTLOG_DATA_DIR` say.',
  }),
  url: setting.optional({
    env: 'QUESTLOG_URL',
    description:
      'Where the commands of `questlog` reach the listener for games. Empty: as the credentials in `QUESTLOG_DATA_DIR` say.',
  }),
  token: setting.secret({
    env: 'QUESTLOG_TOKEN',
    description: 'The token of a game for the commands of `questlog`; needed with `QUESTLOG_URL`.',
  }),
  dataDir: setting.text({
    env: 'QUESTLOG_DATA_DIR',
    default: defaultDataDir,
    description:
      'Folder of the embedded log, the embedded ClickHouse, uploaded files and the credentials; one process at a time.',
  }),
  backupDir: setting.optional({
    env: 'QUESTLOG_BACKUP_DIR',
    description:
      'Folder into which backups of the embedded engines are made. Empty: `backups` in the data folder; better another disk.',
  }),
  revision: setting.choice(['A', 'B'], {
    env: 'QUESTLOG_REVISION',
    default: 'A',
    description: 'Revision of the contract for projects that set none.',
  }),
  reportLinks: setting.integer({
    env: 'QUESTLOG_REPORT_LINKS',
    default: DEFAULT_MAX_SESSION_LINKS,
    minimum: 0,
    maximum: 1_000_000,
    description:
      'Links that a report gets by its session and window, the first in the log; what it names comes on top.',
  }),
  erasedIds: setting.integer({
    env: 'QUESTLOG_ERASED_IDS',
    default: DEFAULT_MAX_ERASED_IDS,
    minimum: 0,
    maximum: 10_000_000,
    description:
      'Sessions and reports that are erased one by one, ever. Every process keeps their ids in memory, in some 100 bytes each.',
  }),
  demo: setting.choice(['auto', 'on', 'off'], {
    env: 'QUESTLOG_DEMO',
    default: 'auto',
    description: 'Creates a demo tenant, project, session and token; `auto`: only `standalone` does.',
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

/** Of a process that may also stand on the embedded log. */
export function isOnKafka({ log, kafkaBrokers }: Settings): boolean {
  // Brokers that are given and not used would be two deployments that look like one.
  return log === 'kafka' || (log === 'auto' && kafkaBrokers !== '');
}

/** Where the process listens, each with the settings that say so. */
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
