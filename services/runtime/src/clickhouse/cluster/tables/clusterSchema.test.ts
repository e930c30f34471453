/** Tests which tables a cluster gets, and the statements that create and repair the tables. */
import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import {
  type ClusterTable,
  clusterTables,
  createOnCluster,
  createOnNode,
  repairsOf,
} from './clusterSchema.ts';
import type { Column, Table } from './tableState.ts';

const NAMES = { from: 'temporary', database: 'games', cluster: 'main' };

const aColumn = (name: string, other: Partial<Column> = {}): Column => ({
  ...{ name, type: 'UInt32', defaultKind: '', defaultExpression: '', codec: '', comment: '' },
  ...other,
});
const aTable = (name: string, other: Partial<Table> = {}): Table => ({
  ...{ name, engine: 'ReplacingMergeTree ORDER BY id', settings: {}, select: '', comment: '' },
  ...{ columns: [aColumn('id')], indices: [] },
  ...other,
});
const aView = (name: string, select: string): Table => aTable(name, { engine: 'View', select });

const deriveAll = (...tables: Table[]) => clusterTables(tables, NAMES);

function find(tables: readonly ClusterTable[], name: string): ClusterTable {
  const table = tables.find((one) => one.name === name);
  if (table === undefined) throw new Error(`there is no table ${name}`);
  return table;
}

test('replicates a sharded table within its shard, with its deduplication window', () => {
  const events = aTable('events', {
    columns: [aColumn('id', { comment: 'It’s', codec: 'CODEC(ZSTD(1))' })],
    indices: [{ name: 'by_id', type: 'minmax', expression: 'id', granularity: '1' }],
    settings: { non_replicated_deduplication_window: '1000', fsync_after_insert: '1' },
    comment: "the game's events",
  });
  const [local, _partitionShards, _shardQuorums, _restoreMarker, ...names] = deriveAll(events);
  expect(local && createOnCluster(local, NAMES)).toBe(
    'CREATE TABLE IF NOT EXISTS games.events_local ON CLUSTER `main` ' +
      "(`id` UInt32 COMMENT 'It’s' CODEC(ZSTD(1)), INDEX by_id id TYPE minmax GRANULARITY 1) " +
      "ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}') ORDER BY id " +
      'SETTINGS fsync_after_insert = 1, replicated_deduplication_window = 10000, ' +
      'replicated_deduplication_window_seconds = 604800, min_compressed_bytes_to_fsync_after_fetch = 1, max_cleanup_delay_period = 30 ' +
      "COMMENT 'the game\\'s events'",
  );
  expect(names.map((table) => createOnNode(table, NAMES))).toEqual([
    "CREATE OR REPLACE VIEW games.events_shard (`id` UInt32 COMMENT 'It’s') AS SELECT id FROM games.events_local COMMENT 'the game\\'s events'",
    "CREATE OR REPLACE TABLE games.events (`id` UInt32 COMMENT 'It’s') ENGINE = Distributed('main', 'games', 'events_shard', throwIf(rand() >= 0, 'this table is read-only')) COMMENT 'the game\\'s events'",
  ]);
});

test('replicates every other table to all nodes, with the arguments of its engine', () => {
  const sessions = find(
    deriveAll(aTable('sessions', { engine: 'ReplacingMergeTree(version) ORDER BY id' })),
    'sessions',
  );
  expect(createOnCluster(sessions, NAMES)).toContain(
    "ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{uuid}/all', '{shard}-{replica}', version) ORDER BY id",
  );
});

test('gives replicated tables the storage policy of the setting', () => {
  const events = aTable('events');
  const [local] = clusterTables([events], { ...NAMES, storagePolicy: 'tiered' });
  const [stored] = deriveAll(events);
  expect(local && repairsOf(local, stored, NAMES)).toEqual({
    replicated: [],
    local: ["ALTER TABLE games.events_local MODIFY SETTING storage_policy = 'tiered'"],
  });
});

test('a view over a sharded table reads the local rows on each shard, also through another view', () => {
  const tables = deriveAll(
    aTable('events'),
    aTable('sessions'),
    aView('named', 'SELECT id FROM temporary.joined'),
    aView(
      'joined',
      'SELECT events.id FROM temporary.events LEFT JOIN temporary.sessions AS s ON s.id = events.id',
    ),
    aView('players', 'SELECT id FROM temporary.sessions FINAL'),
  );
  expect(find(tables, 'joined_shard').select).toBe(
    'SELECT events.id FROM games.events_local AS events LEFT JOIN games.sessions AS s ON s.id = events.id',
  );
  expect(find(tables, 'joined').engine).toBe(
    "Distributed('main', 'games', 'joined_shard', throwIf(rand() >= 0, 'this table is read-only'))",
  );
  expect(find(tables, 'named_shard').select).toBe('SELECT id FROM games.joined_shard AS joined');
  expect(find(tables, 'players')).toMatchObject({
    engine: 'View',
    select: 'SELECT id FROM games.sessions FINAL',
  });
});

const derivedSessions = (other: Partial<Table> = {}) =>
  find(deriveAll(aTable('sessions', other)), 'sessions');

test('an equal table needs no repair', () => {
  const sessions = derivedSessions();
  expect(repairsOf(sessions, sessions, NAMES)).toEqual({ replicated: [], local: [] });
});

test('repairs columns, indices, settings, and comments with as few statements as possible', () => {
  const expected = derivedSessions({
    columns: [
      aColumn('id'),
      aColumn('new', { defaultKind: 'DEFAULT', defaultExpression: 'id' }),
      aColumn('kind', { comment: 'b' }),
    ],
    indices: [{ name: 'by_id', type: 'minmax', expression: 'id', granularity: '1' }],
    settings: { index_granularity: '8192' },
    comment: 'two',
  });
  const stored = derivedSessions({
    columns: [aColumn('id', { type: 'UInt8' }), aColumn('kind', { comment: 'a' }), aColumn('newer')],
    settings: { index_granularity: '512' },
    comment: 'one',
  });
  expect(repairsOf(expected, stored, NAMES)).toEqual({
    replicated: [
      'ALTER TABLE games.sessions MODIFY COLUMN `id` UInt32, ADD COLUMN IF NOT EXISTS `new` UInt32 DEFAULT id AFTER `id`, ' +
        'ADD INDEX IF NOT EXISTS by_id id TYPE minmax GRANULARITY 1',
    ],
    local: [
      "ALTER TABLE games.sessions COMMENT COLUMN `kind` 'b'",
      'ALTER TABLE games.sessions MODIFY SETTING index_granularity = 8192',
      "ALTER TABLE games.sessions MODIFY COMMENT 'two'",
    ],
  });
});

test('rejects a table whose sorting key differs', () => {
  const stored = derivedSessions({ engine: 'ReplacingMergeTree ORDER BY kind' });
  expect(() => repairsOf(derivedSessions(), stored, NAMES)).toThrow('ORDER BY kind');
});

const STATEMENTS =
  /^(CREATE (TABLE|VIEW|OR REPLACE VIEW)\b|ALTER TABLE \w+\s+(ADD COLUMN|ADD INDEX|MODIFY COLUMN|MODIFY COMMENT|COMMENT COLUMN|MODIFY SETTING)\b)/;

test('the SQL files contain only changes that a cluster can be repaired with', () => {
  const directory = new URL('../../../../../../deploy/clickhouse/', import.meta.url);
  const statements = readdirSync(directory).flatMap((name) =>
    readFileSync(new URL(name, directory), 'utf8')
      .split(/^;$/m)
      .map((statement) => statement.replaceAll(/^--.*$/gm, '').trim()),
  );
  expect(statements.filter((statement) => !STATEMENTS.test(statement))).toEqual([]);
});
