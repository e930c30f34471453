/** Tests that ClickHouse's address can be in one setting or in several settings. Tests that invalid addresses are rejected. */
import Type from 'typebox';
import { expect, test } from 'vitest';
import { loadConfig } from '../process/config.ts';
import { clickhouseAddress, clickhouseSettings } from './clickhouseSettings.ts';

const settings = Type.Object(clickhouseSettings);

const addressOf = (env: Record<string, string>) => clickhouseAddress(loadConfig(settings, env, 'QUESTLOG_'));

test('reads user, password, and database from the address', () => {
  expect(addressOf({ CLICKHOUSE_URL: 'https://me:p%40ss@ch.example:8443/games' })).toMatchObject({
    url: 'https://ch.example:8443',
    username: 'me',
    password: 'p@ss',
    database: 'games',
  });
});

test('reads user, password, and database from their own settings, where a secret can be a file', () => {
  const env = { CLICKHOUSE_URL: 'http://ch:8123', CLICKHOUSE_USERNAME: 'me', CLICKHOUSE_PASSWORD: 'pw' };
  expect(addressOf(env)).toMatchObject({ username: 'me', password: 'pw', database: 'questlog' });
});

test.each([
  ['ch:8123', 'CLICKHOUSE_URL'],
  ['tcp://ch:9000', 'CLICKHOUSE_URL'],
  ['http://ch:8123/games;DROP', 'CLICKHOUSE_DATABASE'],
  ['http://ch:8123/a/b', 'CLICKHOUSE_DATABASE'],
])('rejects %s', (url, name) => {
  expect(() => addressOf({ CLICKHOUSE_URL: url })).toThrow(name);
});
