/** Tests that ClickHouse's address can be in one setting or in several settings. Tests that invalid addresses are rejected. */
import Type from 'typebox';
import { expect, test } from 'vitest';
import { loadConfig } from '../process/config.ts';
import { clickhouseAddresses, clickhouseOptions, clickhouseSettings } from './clickhouseSettings.ts';

const settings = Type.Object(clickhouseSettings);

const loaded = (env: Record<string, string>) => loadConfig(settings, env, 'QUESTLOG_');
const addressOf = (env: Record<string, string>) => clickhouseAddresses(loaded(env))[0];

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

test('reads the addresses of all nodes of a cluster, whose passwords can contain commas', () => {
  const env = {
    CLICKHOUSE_URL: 'http://me:a,b@ch1:8123/games, https://me:c@ch2/games',
    CLICKHOUSE_CLUSTER: 'one',
    CLICKHOUSE_READER_URL: 'https://reader:d,e@ch2,http://reader:f@ch1:8123',
  };
  expect(clickhouseOptions(loaded(env), false)).toMatchObject({
    readers: [
      { url: 'https://ch2', password: 'd,e' },
      { url: 'http://ch1:8123', password: 'f' },
    ],
    address: { url: 'http://ch1:8123', password: 'a,b', database: 'games' },
    cluster: { name: 'one', nodes: [{ url: 'http://ch1:8123' }, { url: 'https://ch2', password: 'c' }] },
  });
});

test.each([
  [{ CLICKHOUSE_CLUSTER: 'one' }, 'CLICKHOUSE_CLUSTER: requires CLICKHOUSE_URL'],
  [{ CLICKHOUSE_STORAGE_POLICY: 'tiered' }, 'CLICKHOUSE_STORAGE_POLICY: requires CLICKHOUSE_URL'],
  [{ CLICKHOUSE_URL: 'http://a', CLICKHOUSE_STORAGE_POLICY: "'x'" }, 'CLICKHOUSE_STORAGE_POLICY: requires'],
  [{ CLICKHOUSE_URL: 'http://a,http://b' }, 'CLICKHOUSE_URL: several addresses require CLICKHOUSE_CLUSTER'],
  [{ CLICKHOUSE_URL: 'http://a,http://a', CLICKHOUSE_CLUSTER: 'one' }, 'contains an address twice'],
  [{ CLICKHOUSE_URL: 'http://a/x,http://b/y', CLICKHOUSE_CLUSTER: 'one' }, 'the same database'],
  [
    { CLICKHOUSE_URL: 'http://a', CLICKHOUSE_READER_URL: 'http://r:p@a,http://r:p@b' },
    'CLICKHOUSE_READER_URL: several addresses require CLICKHOUSE_CLUSTER',
  ],
  [
    { CLICKHOUSE_URL: 'http://a', CLICKHOUSE_CLUSTER: 'one', CLICKHOUSE_READER_URL: 'http://r:p@b' },
    'CLICKHOUSE_READER_URL: CLICKHOUSE_URL does not contain the address http://b',
  ],
  [
    { CLICKHOUSE_URL: 'http://a', CLICKHOUSE_CLUSTER: '`one`' },
    'CLICKHOUSE_CLUSTER: the name can contain only',
  ],
])('rejects %j', (env, message) => {
  expect(() => clickhouseOptions(loaded(env), true)).toThrow(message);
});
