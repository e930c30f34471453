/** Where ClickHouse is, from the settings: its address may hold user, password and database, as tools print it. */

import type { StoreOptions } from '@questlog/runtime/clickhouse/store';
import { StartRefused } from '@questlog/runtime/process/errors';
import type { Settings } from './config.ts';

const DEFAULT_USER = 'default';
const DEFAULT_DATABASE = 'questlog';
/** It stands in DDL as it is. */
const DATABASE = /^[A-Za-z_]\w{0,127}$/;

/** @throws StartRefused naming the setting. */
export function clickhouseAddress(settings: Settings): StoreOptions {
  const url = URL.canParse(settings.clickhouseUrl) ? new URL(settings.clickhouseUrl) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw new StartRefused('CLICKHOUSE_URL: must be an http:// or https:// address');
  }
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

function segments(url: URL): string[] {
  return url.pathname.split('/').filter((segment) => segment !== '');
}
