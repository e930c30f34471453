/** Tests which faults of a node do not prevent the comparison of the tables of a cluster. */
import { expect, test, vi } from 'vitest';
import { Unavailable } from '../../../process/errors.ts';
import { silentLogger } from '../../../process/logger.ts';
import type { AddressedStore, StoreOptions } from '../../store.ts';
import { clusterTables } from './clusterSchema.ts';
import { migrateCluster } from './migrateCluster.ts';

const OLD = 'games_expected_1_0123abcd';
const EXISTING = clusterTables([], { from: '', database: 'games', cluster: 'main' });
const TABLES = EXISTING.map(({ engine, settings, ...table }) => {
  const all = Object.entries(settings).map(([name, value]) => `${name} = ${value}`);
  return { ...table, uuid: table.name, engine: `${engine} SETTINGS ${all.join(', ')}` };
});
const COLUMNS = EXISTING.flatMap(({ name, columns }) =>
  columns.map((column) => ({ ...column, table: name })),
);

function answerOf(url: string, sql: string, database: unknown): unknown[] {
  if (sql.includes('version()')) return [{ version: '26.7.1' }];
  if (sql.includes('now64')) return [{ at: Date.now() }];
  if (sql.includes('system.clusters')) return [{ size: '2', replicas: '2', number: 1 }];
  if (sql.includes('system.macros'))
    return Object.entries({ shard: '1', replica: url }).map(([macro, substitution]) => ({
      macro,
      substitution,
    }));
  if (sql.includes('system.databases')) return [{ name: OLD }];
  if (sql.includes('AS partitions')) return [{ partitions: '1000' }];
  if (database === 'games' && sql.includes('AS definition')) return TABLES;
  return database === 'games' && sql.includes('system.columns') ? COLUMNS : [];
}

/** Starts a cluster that has all tables. The disks of the nodes in `full` are full. */
async function start(full: readonly string[]) {
  const commands: string[] = [];
  const open = ({ url }: StoreOptions) =>
    ({
      query: async (sql: string, params?: Record<string, unknown>) =>
        answerOf(url, sql, params?.['database']),
      command: async (sql: string) => {
        if (full.includes(url) && !sql.startsWith('CREATE DATABASE IF NOT EXISTS games '))
          throw new Unavailable('No space left on device');
        commands.push(`${url} ${sql.replace(/_expected_\d{10,}\w+/, '_expected_NEW')}`);
      },
      close: async () => {},
    }) as unknown as AddressedStore;
  const nodes = ['a', 'b'].map((url) => ({ url, username: '', password: '', database: 'games' }));
  const options = { name: 'main', nodes };
  const warn = vi.fn();
  const directory = import.meta.dirname;
  await migrateCluster({ options, database: 'games', directory, logger: { ...silentLogger, warn }, open });
  return { commands, warn };
}

test('a full disk on the first node does not prevent a start', async () => {
  const { commands, warn } = await start(['a']);
  expect(commands).toContain(`b DROP DATABASE IF EXISTS ${OLD}`);
  expect(commands).toContain('b CREATE DATABASE IF NOT EXISTS games_expected_NEW ENGINE = Atomic');
  expect(warn).toHaveBeenCalledWith('clickhouse_node_unavailable', {
    ...{ node: 'a', cause: 'No space left on device' },
  });
});

test('a start fails if no node can create tables', async () => {
  await expect(start(['a', 'b'])).rejects.toThrow('No space left on device');
});
