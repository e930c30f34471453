/** Tests the quorum of each table, and that a node joins the cluster after the start. */
import { expect, test } from 'vitest';
import { Unavailable } from '../../process/errors.ts';
import { silentLogger } from '../../process/logger.ts';
import type { Store, StoreOptions } from '../store.ts';
import { openClusterStore } from './clusterStore.ts';

/** Shard and replica of each node. Shard 2 has one replica. */
const NODES: Readonly<Record<string, readonly [shard: string, replica: string]>> = {
  'http://a': ['1', 'a'],
  'http://b': ['1', 'b'],
  'http://c': ['2', 'c'],
};

const TABLES = [
  { name: 'events', engine: "Distributed('main', 'games', 'events_shard', 1)", select: '' },
  { name: 'events_shard', engine: 'View', select: 'SELECT id FROM games.events_local' },
  ...['events_local', 'sessions', 'partition_shards'].map((name) => ({
    ...{ name, engine: 'ReplicatedMergeTree', select: '' },
  })),
];

const ASSIGNMENTS = [
  { partition: 0, shard: '1' },
  { partition: 1, shard: '2' },
];

function answerOf(url: string, sql: string): unknown[] {
  const [shard = '', replica] = NODES[url] ?? [];
  const replicas = Object.values(NODES).filter(([other]) => other === shard).length;
  if (sql.includes('version()')) return [{ version: '26.7.1' }];
  if (sql.includes('system.clusters')) return [{ size: '3', replicas: String(replicas) }];
  if (sql.includes('system.macros'))
    return Object.entries({ shard, replica }).map(([macro, substitution]) => ({ macro, substitution }));
  if (sql.includes('system.tables')) return TABLES;
  if (sql.includes('FROM partition_shards')) return ASSIGNMENTS;
  return [];
}

/** Opens the store of a cluster whose nodes answer unless `down` has their address. */
async function aClusterStore(down = new Set<string>()) {
  const inserts: string[] = [];
  const commands: string[] = [];
  const open = ({ url, querySettings = {} }: StoreOptions): Store => {
    const answer = async <T>(value: T): Promise<T> => {
      if (down.has(url)) throw new Unavailable('connection refused');
      return value;
    };
    return {
      ...{ database: 'games', insertsEndWithinMs: 0 },
      query: <Row>(sql: string) => answer(answerOf(url, sql) as Row[]),
      queryRaw: () => Promise.reject(new Error('not used')),
      stream: () => Promise.reject(new Error('not used')),
      command: (sql) => {
        commands.push(`${url} ${sql}`);
        return answer(undefined);
      },
      insert: async ({ table }) =>
        void inserts.push(await answer(`${table} with quorum ${querySettings['insert_quorum']}`)),
      ping: async () => !down.has(url),
      close: async () => {},
    };
  };
  const nodes = Object.keys(NODES).map((url) => ({ url, username: '', password: '', database: 'games' }));
  const store = await openClusterStore({ name: 'main', nodes }, 'games', silentLogger, open);
  const partition = (number: number): Store => store.forPartition?.(number) ?? store;
  return { store, partition, inserts, commands };
}

const rowsFor = (table: string) => ({ table, columns: ['id'], rows: Buffer.of(1) });

test('a shard with one replica does not lower the quorum of the other tables', async () => {
  const { partition, inserts } = await aClusterStore();
  for (const number of [0, 1])
    for (const table of ['events', 'sessions']) await partition(number).insert(rowsFor(table));
  expect(inserts).toEqual([
    'events_local with quorum 2',
    'sessions with quorum 2',
    'events_local with quorum 1',
    'sessions with quorum 2',
  ]);
});

test.each([
  ['one of two replicas', 'http://b', 0],
  ['the only replica', 'http://c', 1],
])('a shard is usable after %s, which was unavailable at the start, answers', async (_, url, number) => {
  const down = new Set([url]);
  const { partition } = await aClusterStore(down);
  const read = () => partition(number).query('SELECT id FROM events');
  await expect(read()).rejects.toThrow(Unavailable);
  down.delete(url);
  await expect.poll(read, { timeout: 5_000 }).toEqual([]);
});

test('reads use nodes that answer, and name a shard without such a node', async () => {
  const down = new Set<string>();
  const { store, commands } = await aClusterStore(down);
  const events = () => store.query('SELECT id FROM events');
  const sessions = () => store.query('SELECT id FROM sessions');
  down.add('http://b');
  expect([await events(), await sessions()]).toEqual([[], []]);
  // A node that did not answer is not asked again if another replica of its shard answers.
  commands.length = 0;
  for (let reads = 0; reads < 5; reads++) expect([await events(), await sessions()]).toEqual([[], []]);
  expect(commands.filter((command) => command.startsWith('http://b'))).toEqual([]);
  down.add('http://c');
  await expect(events()).rejects.toThrow('ClickHouse: no replica of shard 2 answers');
  expect(await sessions()).toEqual([]);
  down.clear();
  await expect.poll(events).toEqual([]);
  await store.close();
});

test('an insert from a query of all shards runs on a node that has all rows', async () => {
  const { store, commands } = await aClusterStore();
  commands.length = 0;
  await store.command('INSERT INTO sessions SELECT session_id FROM events');
  expect(commands.slice(0, -1).toSorted()).toEqual(
    Object.keys(NODES).flatMap((url) =>
      ['events_local', 'sessions'].map((table) => `${url} SYSTEM SYNC REPLICA ${table} LIGHTWEIGHT`),
    ),
  );
  expect(commands.at(-1)).toContain('INSERT INTO sessions SELECT session_id FROM events');
  await store.close();
});
