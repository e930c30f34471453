/** ClickHouse's address, from the settings: it may hold user, password and database, as tools print it. */

import type { StoreOptions } from '@questlog/runtime/clickhouse/store';
import { StartRefused } from '@questlog/runtime/process/errors';
import type { Settings } from '../config.ts';
import type { Account } from '../credentials.ts';

const DEFAULT_USER = 'default';
const DEFAULT_DATABASE = 'questlog';
/** It stands in DDL as it is. */
const DATABASE = /^[A-Za-z_]\w{0,127}$/;

/** @throws StartRefused naming the setting. */
export function clickhouseAddress(settings: Settings): StoreOptions {
  const url = addressOf('CLICKHOUSE_URL', settings.clickhouseUrl);
  const database = settings.clickhouseDatabase || segments(url)[0] || DEFAULT_DATABASE;
  if (!DATABASE.test(database) || segments(url).length > 1) {
    throw new StartRefused(
      'CLICKHOUSE_URL, CLICKHOUSE_DATABASE: a database’s name is of letters, digits and underscores',
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

/** The account that only reads, where there is one. @throws StartRefused */
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
