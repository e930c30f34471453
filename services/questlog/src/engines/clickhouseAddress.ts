/** Reads ClickHouse's address, user, password, and database from the settings. */

import type { StoreOptions } from '@questlog/runtime/clickhouse/store';
import { StartRefused } from '@questlog/runtime/process/errors';
import type { Settings } from '../config.ts';
import type { Account } from '../credentials.ts';

const DEFAULT_USER = 'default';
const DEFAULT_DATABASE = 'questlog';
/** Database names that SQL accepts without quotes. The migrations contain the name of the database without quotes. */
const DATABASE = /^[A-Za-z_]\w{0,127}$/;

export function clickhouseAddress(settings: Settings): StoreOptions {
  const url = addressOf('CLICKHOUSE_URL', settings.clickhouseUrl);
  const database = settings.clickhouseDatabase || segments(url)[0] || DEFAULT_DATABASE;
  if (!DATABASE.test(database) || segments(url).length > 1) {
    throw new StartRefused(
      'CLICKHOUSE_URL, CLICKHOUSE_DATABASE: the name of the database can contain only letters, digits, and underscores',
    );
  }
  return {
    url: url.origin,
    username: settings.clickhouseUsername || decodeURIComponent(url.username) || DEFAULT_USER,
    password: settings.clickhousePassword || decodeURIComponent(url.password),
    database,
    caPem: settings.clickhouseTlsCa,
  };
}

export function readerAccount(settings: Settings): (Account & { url: string }) | undefined {
  if (settings.clickhouseReaderUrl === '') return undefined;
  const {
    origin: url,
    username,
    password,
  } = addressOf('CLICKHOUSE_READER_URL', settings.clickhouseReaderUrl);
  if (username === '')
    throw new StartRefused('CLICKHOUSE_READER_URL: must be http://user:password@host:port');
  return { url, username: decodeURIComponent(username), password: decodeURIComponent(password) };
}

function addressOf(setting: string, text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && /^https?:$/.test(url.protocol)) return url;
  throw new StartRefused(`${setting}: must be an http:// or https:// address`);
}

function segments(url: URL): string[] {
  return url.pathname.split('/').filter((segment) => segment !== '');
}
