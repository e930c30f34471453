/** Tests the clients of data teams with a ClickHouse server and the account of `deploy/clickhouseReader.sql`. */
import { openStore, type Store } from '@questlog/runtime/clickhouse/store';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { ALL_TYPES } from '../dataClients/allTypes.ts';
import { testDataClients } from '../dataClients/testDataClients.ts';
import type { ClickHouseCluster } from './aClickHouseCluster.ts';
import { describeClickHouseCluster } from './describeClickHouseCluster.ts';
import { createReader } from './readerAccount.ts';

await describeClickHouseCluster('the read-only account of a ClickHouse server', async (start) => {
  let cluster: ClickHouseCluster;
  let store: Store;
  let url: URL;
  let account: { username: string; password: string };
  beforeAll(async () => {
    cluster = await start();
    url = new URL(cluster.nodes[0] ?? '');
    const address = { url: url.origin, username: url.username, password: url.password };
    const anywhere = openStore({ ...address, database: 'default' });
    await anywhere.command('CREATE DATABASE questlog');
    await anywhere.close();
    store = openStore({ ...address, database: 'questlog' });
    const { username, password } = await createReader(url.href, 'questlog');
    account = { username, password };
    for (const statement of ALL_TYPES) await store.command(statement);
  });
  afterAll(async () => {
    await store.close();
    await cluster[Symbol.asyncDispose]();
  });

  const running = () => store.query("SELECT 1 FROM system.processes WHERE query LIKE 'SELECT sum(sip%'");
  afterEach(() => expect.poll(running).toEqual([]));

  await testDataClients(() => ({ ...account, host: url.host }));

  test('the account has a limit of concurrent queries', async () => {
    const reader = openStore({ url: url.origin, ...account, database: 'questlog' });
    const limit = await reader.query("SELECT getSetting('max_concurrent_queries_for_user') AS queries");
    await reader.close();
    expect(limit).toEqual([{ queries: 10 }]);
  });

  test('the account sees no queries of other accounts', async () => {
    const reader = openStore({ url: url.origin, ...account, database: 'questlog' });
    const seen = await reader.query('SELECT DISTINCT user FROM system.processes');
    await reader.close();
    expect(seen).toEqual([{ user: account.username }]);
  });
});
