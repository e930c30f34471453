/** Tests migrations by several processes at the same time and after a crash, and inserts with and without a token. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { aClickHouse } from './chdb/testing/aClickHouse.ts';
import { openMigrated } from './migrate.ts';

const TABLES = [
  'CREATE TABLE first (x UInt8) ENGINE = MergeTree ORDER BY x',
  'CREATE VIEW second AS SELECT x FROM first',
  // The file repeats its statements, so that the processes collide.
  ...Array.from({ length: 5 }, (_, n) => [
    'CREATE OR REPLACE VIEW second AS SELECT x, x + 1 AS y FROM first',
    `ALTER TABLE second COMMENT COLUMN y '${n}'`,
  ]).flat(),
].join('\n;\n');

async function aDatabase() {
  const clickhouse = await aClickHouse();
  onTestFinished(() => clickhouse[Symbol.asyncDispose]());
  const directory = mkdtempSync(join(tmpdir(), 'questlog-migrations-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  writeFileSync(join(directory, '001-tables.sql'), TABLES);
  const { url, username, password } = clickhouse.server;
  const migrate = async (): Promise<void> => {
    const store = await openMigrated({ url, username, password, database: 'games' }, directory);
    await store.close();
  };
  return { clickhouse, directory, migrate };
}

test('processes that start at the same time all find the tables', async () => {
  const { clickhouse, migrate } = await aDatabase();
  await Promise.all([migrate(), migrate(), migrate()]);
  expect(await clickhouse.number('SELECT count() FROM games.second')).toBe(0);
});

test('the next start completes a migration that was interrupted between its statements', async () => {
  const { clickhouse, migrate } = await aDatabase();
  await clickhouse.ask('CREATE DATABASE games ENGINE = Atomic');
  await clickhouse.ask('CREATE TABLE games.first (x UInt8) ENGINE = MergeTree ORDER BY x');
  await migrate();
  expect(await clickhouse.number('SELECT count() FROM games.second')).toBe(0);
});

test('changes the storage policy of the inner table of a materialized view', async () => {
  const { clickhouse, directory } = await aDatabase();
  const view = 'CREATE MATERIALIZED VIEW copy ENGINE = MergeTree ORDER BY x AS SELECT x FROM first';
  writeFileSync(join(directory, '002-copy.sql'), view);
  const { url, username, password } = clickhouse.server;
  const changed = openMigrated({ url, username, password, database: 'games' }, directory, 'tiered');
  await expect(changed).rejects.toThrow('Unknown storage policy `tiered`');
});

test('rejects the start if an applied file has changed', async () => {
  const { directory, migrate } = await aDatabase();
  await migrate();
  await migrate();
  writeFileSync(join(directory, '001-tables.sql'), `${TABLES}\n-- changed`);
  await expect(migrate()).rejects.toThrow('001-tables.sql was changed');
});

test('stores equal rows twice unless they have the same token, in a table that deduplicates inserts', async () => {
  const { clickhouse, directory } = await aDatabase();
  const table = 'CREATE TABLE third (x UInt8) ENGINE = MergeTree ORDER BY x';
  const settings = 'SETTINGS non_replicated_deduplication_window = 10';
  writeFileSync(join(directory, '002-third.sql'), `${table} ${settings}`);
  const { url, username, password } = clickhouse.server;
  const store = await openMigrated({ url, username, password, database: 'games' }, directory);
  const insert = { table: 'third', columns: ['x'], rows: Buffer.from([7]) };
  for (const token of [undefined, undefined, 'a', 'a', 'b'])
    await store.insert(token === undefined ? insert : { ...insert, deduplicationToken: token });
  await store.close();
  expect(await clickhouse.number('SELECT count() FROM games.third')).toBe(4);
});
