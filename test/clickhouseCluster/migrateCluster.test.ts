/**
 * Tests that all nodes of a ClickHouse cluster get the same tables: after concurrent starts, after an interrupted start, after a
 * node was unavailable, and after a node was replaced.
 */
import { randomUUID } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ERASED_TABLES, scopesOf } from '@questlog/operations/erasures/core/scope';
import {
  dropFromDisk,
  hideRows,
  recordErasedEvents,
  restoreSettings,
} from '@questlog/operations/erasures/eraseRows';
import { migrateCluster } from '@questlog/runtime/clickhouse/cluster/tables/migrateCluster';
import { readTables } from '@questlog/runtime/clickhouse/cluster/tables/tableState';
import { openMigrated } from '@questlog/runtime/clickhouse/migrate';
import { type AddressedStore, openStore, type StoreOptions } from '@questlog/runtime/clickhouse/store';
import { StartRefused, Unavailable } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { anErasure } from '@questlog/schemas/fixtures/builders';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { eventually } from '../e2e/builders.ts';
import { emptyDataDir, end, spawnProduct } from '../e2e/product.ts';
import type { ClickHouseCluster } from './aClickHouseCluster.ts';
import { describeClickHouseCluster } from './describeClickHouseCluster.ts';

const MIGRATIONS = fileURLToPath(new URL('../../deploy/clickhouse', import.meta.url));
const STARTED_WITHIN_MS = 60_000;
const ASSIGNED = { rows: '1000', shards: ['1', '2', '1'] };

await describeClickHouseCluster('the tables of a ClickHouse cluster', (start) => {
  let cluster: ClickHouseCluster;
  let nodes: string[];
  let databases = 0;
  const folders: string[] = [];
  beforeAll(async () => {
    cluster = await start();
    nodes = [...cluster.nodes];
  });
  afterAll(async () => {
    for (const folder of folders) rmSync(folder, { recursive: true });
    await cluster[Symbol.asyncDispose]();
  });

  const aDatabase = () => `games${++databases}`;

  /** Returns a folder with the SQL files before a number. Fewer files make a test faster. */
  function filesBefore(number: string): string {
    const directory = mkdtempSync(join(tmpdir(), 'questlog-migrations-'));
    folders.push(directory);
    for (const name of readdirSync(MIGRATIONS).filter((file) => file < number))
      symlinkSync(join(MIGRATIONS, name), join(directory, name));
    return directory;
  }

  function addressOf(node: string, database = 'default'): StoreOptions {
    const { origin, username, password } = new URL(node);
    return { url: origin, username, password, database };
  }

  async function migrate(database: string, { directory = MIGRATIONS, open = openStore } = {}): Promise<void> {
    const options = { name: cluster.name, nodes: nodes.map((node) => addressOf(node, database)) };
    await migrateCluster({ options, database, directory, logger: silentLogger, open });
  }

  async function ask<Row>(node: string, sql: string): Promise<Row[]> {
    const store = openStore(addressOf(node));
    try {
      return await store.query<Row>(sql);
    } finally {
      await store.close();
    }
  }

  /** Returns the definitions of all tables of a node, with their UUIDs. */
  async function definitions(node: string, database: string): Promise<readonly unknown[]> {
    return await ask(
      node,
      `SELECT create_table_query, if(startsWith(engine, 'Replicated'), uuid, NULL) AS id, metadata_modification_time AS changed
       FROM system.tables WHERE database = '${database}' ORDER BY name`,
    );
  }

  /** Returns the identity of the sharded tables on each node. */
  async function markers(database: string): Promise<unknown[]> {
    const sql = `SELECT uuid FROM system.tables WHERE database = '${database}' AND name = 'restore_marker'`;
    return (await Promise.all(nodes.map((node) => ask(node, sql)))).flat();
  }

  /** Returns the tables of the first node, without their names for the database and without UUIDs. */
  async function tables(database: string): Promise<unknown> {
    const store = openStore(addressOf(nodes[0] ?? ''));
    try {
      const stored = await readTables(store, database);
      const text = JSON.stringify(stored.map(({ uuid: _, definition: __, ...table }) => table));
      return JSON.parse(text.replaceAll(database, 'games'));
    } finally {
      await store.close();
    }
  }

  /** Returns the number of rows in `partition_shards`, and the shards in the order of their partitions, on each node. */
  async function partitionShards(database: string): Promise<unknown[]> {
    const sql = `SELECT count() AS rows, arraySlice(arrayMap(row -> row.2, arraySort(groupArray((log_partition, shard)))), 1, 3)
       AS shards FROM ${database}.partition_shards`;
    return (await Promise.all(nodes.map((node) => ask(node, sql)))).flat();
  }

  const withoutTimes = (rows: readonly unknown[]) => rows.map((row) => ({ ...Object(row), changed: '' }));

  async function expectEqualNodes(database: string, compared = nodes): Promise<void> {
    const [first, ...others] = await Promise.all(compared.map((node) => definitions(node, database)));
    expect(first).toContainEqual(
      expect.objectContaining({ create_table_query: expect.stringContaining('Distributed') }),
    );
    for (const other of others) expect(withoutTimes(other)).toEqual(withoutTimes(first ?? []));
  }

  // The tests that start nodes run first, because a node with fewer tables starts faster.
  test('a node that is unavailable blocks only the first start, and gets its tables later', async ({
    skip,
  }) => {
    const { faults } = cluster;
    if (faults === undefined) return skip('this cluster cannot be broken');
    const [existing, fresh] = [aDatabase(), aDatabase()];
    const others = nodes.filter((_, node) => node !== 3);
    const directory = filesBefore('004');
    await migrate(existing, { directory: filesBefore('002') });
    await faults.kill(3);
    await expect(migrate(fresh, { directory })).rejects.toThrow('needs every node');
    await migrate(existing, { directory });
    await expectEqualNodes(existing, others);
    await faults.start(3);
    await migrate(existing, { directory });
    await expectEqualNodes(existing);
  });

  test('an empty node whose replicas are still listed in Keeper does not prevent a start', async ({
    skip,
  }) => {
    const { faults } = cluster;
    if (faults === undefined) return skip('this cluster cannot be broken');
    const database = aDatabase();
    const directory = filesBefore('002');
    await migrate(database, { directory });
    await faults.loseDisk(1);
    await faults.start(1);
    await migrate(database, { directory });
    expect(await definitions(nodes[1] ?? '', database)).toEqual([]);
  });

  test('a replacement node gets the tables and the rows', async ({ skip }) => {
    const { faults } = cluster;
    if (faults === undefined) return skip('this cluster cannot be broken');
    const database = aDatabase();
    const directory = filesBefore('004');
    await migrate(database, { directory });
    const before = await markers(database);
    nodes[1] = await faults.replace(1);
    await migrate(database, { directory });
    await expectEqualNodes(database);
    expect(await markers(database)).toEqual(before);
    await expect
      .poll(() =>
        ask(
          nodes[1] ?? '',
          `SELECT uniqIf(name, name LIKE '%.sql') AS files FROM ${database}.schema_migrations`,
        ),
      )
      .toEqual([{ files: String(readdirSync(directory).length) }]);
  });

  test('a shard does not count as lost while one of its replicas cannot be used', async () => {
    const database = aDatabase();
    const directory = filesBefore('002');
    await migrate(database, { directory });
    const before = await markers(database);
    const replaced = openStore(addressOf(nodes[1] ?? ''));
    await replaced.command(`DROP TABLE ${database}.restore_marker SYNC`);
    await replaced.close();
    const open = (options: StoreOptions): AddressedStore => {
      const store = openStore(options);
      if (options.url !== addressOf(nodes[0] ?? '').url) return store;
      return { ...store, query: () => Promise.reject(new Unavailable('does not answer')) };
    };
    await expect(migrate(database, { directory, open })).rejects.toThrow(
      'another replica of shard 1 cannot be used',
    );
    expect(await markers(database)).toEqual(before.toSpliced(1, 1));
  });

  test('the permissions in production.md are enough for the tables and an erasure on one server', async () => {
    const page = readFileSync(new URL('../../docs/operating/production.md', import.meta.url), 'utf8');
    const [, onDatabase = '', onSystem = ''] =
      /ClickHouse account\*\* needs (.*?) on its database, and `SELECT` on (.*?)\.\n/s.exec(page) ?? [];
    const quotedIn = (text: string): string[] =>
      [...text.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name);
    const account = aDatabase();
    const admin = openStore(addressOf(nodes[0] ?? ''));
    await admin.command(`CREATE USER ${account} IDENTIFIED BY 'password'`);
    await admin.command(`GRANT ${quotedIn(onDatabase).join(', ')} ON ${account}.* TO ${account}`);
    // By default, ClickHouse does not require this permission, but the cluster of the tests does.
    await admin.command(`GRANT TABLE ENGINE ON * TO ${account}`);
    for (const table of quotedIn(onSystem)) await admin.command(`GRANT SELECT ON ${table} TO ${account}`);
    await admin.close();
    const login = { username: account, password: 'password' };
    const store = await openMigrated({ ...addressOf(nodes[0] ?? '', account), ...login }, MIGRATIONS);
    const requestedAt = Date.now() + 60_000;
    const erasure = anErasure({ tenantId: randomUUID(), projectId: randomUUID(), requestedAt });
    await store.command(
      `INSERT INTO events (tenant_id, project_id, id, received_at)
       VALUES ('${erasure.tenantId}', '${erasure.projectId}', generateUUIDv4(), now())`,
    );
    const ended = new AbortController();
    for (const [part, scope] of scopesOf(erasure).entries()) {
      await recordErasedEvents(store, erasure, scope, part);
      await hideRows(store, scope, ERASED_TABLES, ended.signal);
    }
    const dropped = expect(dropFromDisk(store, erasure.tenantId, ended.signal)).rejects.toThrow('aborted');
    const rows = 'SELECT count() AS rows FROM events SETTINGS apply_deleted_mask = 0';
    await expect.poll(() => store.query(rows), { timeout: 10_000 }).toEqual([{ rows: '0' }]);
    ended.abort();
    await dropped;
    await restoreSettings(store);
    await store.close();
  });

  test('all nodes have equal tables, and a second start changes nothing', async () => {
    const database = aDatabase();
    await migrate(database);
    await expectEqualNodes(database);
    const commands: string[] = [];
    const open = (options: StoreOptions): AddressedStore => {
      const store = openStore(options);
      const command: AddressedStore['command'] = async (sql, ...more) => {
        commands.push(sql);
        await store.command(sql, ...more);
      };
      return { ...store, command };
    };
    await migrate(database, { open });
    expect(commands).toEqual([]);
    const left = await ask(
      nodes[0] ?? '',
      `SELECT name FROM system.databases WHERE name LIKE '${database}_%'`,
    );
    expect(left).toEqual([]);
  });

  test('assigns partitions again if the rows of the first start were lost', async () => {
    const database = aDatabase();
    const directory = filesBefore('004');
    await migrate(database, { directory });
    const [first = ''] = nodes;
    const store = openStore(addressOf(first, database));
    onTestFinished(() => store.close());
    // The deletion keeps the deduplication token of the insert.
    await store.command('ALTER TABLE partition_shards DELETE WHERE true SETTINGS mutations_sync = 2');
    await migrate(database, { directory });
    expect(await partitionShards(database)).toEqual(nodes.map(() => ASSIGNED));
  });

  test('a node that lacks the assignment of partitions does not replace the assignment', async () => {
    const database = aDatabase();
    const directory = filesBefore('004');
    await migrate(database, { directory });
    const [first = ''] = nodes;
    const open = (options: StoreOptions): AddressedStore => {
      const store = openStore(options);
      const query = async <Row>(sql: string, ...more: [Record<string, unknown>?]): Promise<Row[]> =>
        options.url === new URL(first).origin && sql.includes('.partition_shards')
          ? []
          : await store.query<Row>(sql, ...more);
      return { ...store, query };
    };
    await migrate(database, { directory, open });
    expect(await partitionShards(database)).toEqual(nodes.map(() => ASSIGNED));
  });

  test('drops the temporary databases of starts that were killed', async () => {
    const database = aDatabase();
    const [first = '', second = ''] = nodes;
    const minute = 60_000;
    const names = [11, 1].map((minutes) => `${database}_expected_${Date.now() - minutes * minute}_0123abcd`);
    for (const node of [first, second]) {
      const store = openStore(addressOf(node));
      onTestFinished(() => store.close());
      for (const name of names) await store.command(`CREATE DATABASE ${name}`);
    }
    await migrate(database, { directory: filesBefore('004') });
    for (const node of [first, second])
      expect(
        await ask(node, `SELECT name FROM system.databases WHERE name LIKE '${database}_expected_%'`),
      ).toEqual([{ name: names[1] }]);
  });

  test('concurrent starts create the same tables', async () => {
    const database = aDatabase();
    const directory = filesBefore('004');
    await Promise.all([migrate(database, { directory }), migrate(database, { directory })]);
    await expectEqualNodes(database);
  });

  test('a start reads the tables again if a concurrent start replaces the restore marker', async () => {
    const database = aDatabase();
    const directory = filesBefore('004');
    await migrate(database, { directory });
    const [first = ''] = nodes;
    let reads = 0;
    const open = (options: StoreOptions): AddressedStore => {
      const store = openStore(options);
      const query = async <Row>(sql: string, ...more: [Record<string, unknown>?]): Promise<Row[]> => {
        const rows = await store.query<Row>(sql, ...more);
        const isRead = options.url === new URL(first).origin && more[0]?.['database'] === database;
        if (!isRead || !sql.includes('AS definition') || ++reads > 1) return rows;
        return rows.map((row) =>
          Object(row).name === 'restore_marker' ? { ...row, uuid: randomUUID() } : row,
        );
      };
      return { ...store, query };
    };
    await migrate(database, { directory, open });
    expect(reads).toBeGreaterThan(1);
    await expectEqualNodes(database);
  });

  test('an upgrade adds what newer files add, and an older version changes nothing back', async () => {
    const database = aDatabase();
    const older = filesBefore('009');
    await migrate(database, { directory: older });
    await migrate(database);
    const fresh = aDatabase();
    await migrate(fresh);
    expect(await tables(database)).toEqual(await tables(fresh));
    const upgraded = await definitions(nodes[0] ?? '', database);
    await migrate(database, { directory: older });
    expect(await definitions(nodes[0] ?? '', database)).toEqual(upgraded);
  });

  test.each([3, 15])(
    'the next start completes a start that ended after %i statements',
    async (statements) => {
      const database = aDatabase();
      const directory = filesBefore('009');
      let count = 0;
      const open = (options: StoreOptions): AddressedStore => {
        const store = openStore(options);
        const command = async (sql: string): Promise<void> => {
          if (options.database === 'default' && ++count > statements) throw new StartRefused('killed');
          await store.command(sql);
        };
        return { ...store, command };
      };
      await expect(migrate(database, { directory, open })).rejects.toThrow('killed');
      await migrate(database, { directory });
      await expectEqualNodes(database);
    },
  );

  test('the next start completes a start that was killed during the creation of the tables', async () => {
    const database = aDatabase();
    const dataDir = emptyDataDir();
    folders.push(dataDir);
    const urls = nodes.map((node) => new URL(database, node).href);
    const env = { CLICKHOUSE_CLUSTER: cluster.name, CLICKHOUSE_URL: urls.join(',') };
    const started = spawnProduct({ dataDir, env });
    await eventually(
      () => definitions(nodes[0] ?? '', database),
      ({ length }) => length > 0,
      STARTED_WITHIN_MS,
    ).finally(() => end(started, 'SIGKILL'));
    await expect(expectEqualNodes(database)).rejects.toThrow('contain');
    await migrate(database);
    await expectEqualNodes(database);
  });

  test('rejects replicas that do not share their rows', async () => {
    const database = aDatabase();
    const directory = filesBefore('004');
    await migrate(database, { directory });
    const [first = '', second = ''] = nodes;
    const store = openStore(addressOf(second, database));
    onTestFinished(() => store.close());
    await store.command('DROP TABLE events_local SYNC');
    await store.command(
      `CREATE TABLE events_local UUID '5c1f0d1e-3f0e-4a53-8d4a-9d5f0b6f7a10' AS ${database}.events_shard ENGINE = MergeTree ORDER BY id`,
    );
    await expect(migrate(database, { directory })).rejects.toThrow(
      `events_local is not the same table on ${new URL(first).origin} and ${new URL(second).origin}`,
    );
  });
});
