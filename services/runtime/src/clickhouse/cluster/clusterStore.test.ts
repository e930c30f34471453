/** Tests the quorum of each table, the node that a statement uses after a failure, and that a node joins after the start. */
import { ClickHouseError } from '@clickhouse/client';
import { expect, onTestFinished, test, vi } from 'vitest';
import { Unavailable } from '../../process/errors.ts';
import { type Logger, silentLogger } from '../../process/logger.ts';
import { QueryRejected } from '../clickhouseErrors.ts';
import type { AddressedStore, Store, StoreOptions } from '../store.ts';
import { openClusterStore } from './clusterStore.ts';
import { onEachNode, onEachShard } from './eachNode.ts';

/** Shard and replica of each node. Shard 2 has one replica. */
const NODES: Readonly<Record<string, readonly [shard: string, replica: string]>> = {
  'http://a': ['1', 'a'],
  'http://b': ['1', 'b'],
  'http://c': ['2', 'c'],
};

const TABLES = [
  { name: 'events', engine: "Distributed('main', 'games', 'events_shard', 1)", select: '' },
  { name: 'events_shard', engine: 'View', select: 'SELECT id FROM games.events_local' },
  ...['events_local', 'sessions', 'partition_shards', 'shard_quorums'].map((name) => ({
    ...{ name, engine: 'ReplicatedMergeTree', select: '' },
  })),
];

const ASSIGNMENTS = [
  { partition: 0, version: 0, shard: '1', takesEffectAtMs: '0' },
  { partition: 1, version: 0, shard: '2', takesEffectAtMs: '0' },
];

function answerOf(url: string, sql: string): unknown[] {
  const [shard = '', replica] = NODES[url] ?? [];
  const replicas = Object.values(NODES).filter(([other]) => other === shard).length;
  if (sql.includes('version()')) return [{ version: '26.7.1' }];
  if (sql.includes('system.clusters'))
    return [{ size: '3', replicas: String(replicas), number: replica === 'b' ? 2 : 1, shards: '2' }];
  if (sql.includes('system.macros'))
    return Object.entries({ shard, replica }).map(([macro, substitution]) => ({ macro, substitution }));
  if (sql.includes('system.tables')) return TABLES;
  if (sql.includes('FROM partition_shards')) return ASSIGNMENTS;
  return [];
}

function namesOf(url: string): unknown {
  const [shard, replica] = NODES[url] ?? [];
  return { shard, replica };
}

const UNKNOWN_TABLE = { code: '60', type: 'UNKNOWN_TABLE', message: 'Unknown table' };

/**
 * Addresses of nodes with a fault. `silent` nodes drop packets, `outdated` nodes have the tables of an earlier version, `unresolved`
 * nodes do not find their own host, `unnamed` nodes have no macros, and the `remote_servers` of `oldList` nodes lack a shard. Another
 * node reaches a `reachable` node although this node lacks rows. The set `lowered` contains shards with a lowered quorum, and `views`
 * contains views of `events` that an operator has created.
 */
function noFaults() {
  const none = (): Set<string> => new Set();
  const unavailable = { down: none(), silent: none(), lagging: none(), reachable: none(), late: none() };
  const wrong = { empty: none(), outdated: none(), unresolved: none(), unnamed: none(), oldList: none() };
  return { ...unavailable, ...wrong, lowered: none(), views: none() };
}

async function aClusterStore(faults = noFaults(), logger: Pick<Logger, 'warn'> = silentLogger) {
  const inserts: string[] = [];
  const commands: string[] = [];
  const queries: Readonly<Record<string, string | number>>[] = [];
  const open = ({ url }: StoreOptions): AddressedStore => {
    const answer = async <T>(sql: string, value: T): Promise<T> => {
      if (faults.down.has(url)) throw new Unavailable('connection refused');
      if (faults.silent.has(url)) return await new Promise(() => {});
      if (faults.lagging.has(url) && sql.startsWith('SYSTEM SYNC')) throw new Unavailable('timeout');
      if (faults.empty.has(url) && /events_local|sessions/.test(sql))
        throw new QueryRejected(new ClickHouseError(UNKNOWN_TABLE));
      if (faults.outdated.has(url) && /FROM (?:events|sessions)/.test(sql))
        throw new QueryRejected(new ClickHouseError({ ...UNKNOWN_TABLE, code: '47' }));
      return value;
    };
    return {
      ...{ database: 'games', insertsEndWithinMs: 0, url, username: '' },
      query: <Row>(sql: string, _: unknown, settings = {}) => {
        if (sql.startsWith(EVENTS)) queries.push(settings);
        const others = sql.includes('clusterAllReplicas') ? [...faults.reachable].map(namesOf) : undefined;
        if (sql.includes('FROM shard_quorums'))
          return answer(sql, [...faults.lowered].map((shard) => ({ shard, quorum: 1 })) as Row[]);
        const clock = [{ at: Date.now() - (faults.late.has(url) ? 10_000 : 0) }];
        const isUnresolved = faults.unresolved.has(url) && sql.includes('system.clusters');
        const isLacking =
          (faults.unnamed.has(url) && sql.includes('system.macros')) ||
          (faults.empty.has(url) && sql.includes('system.tables'));
        const views = [...faults.views].map((name) => ({
          name,
          engine: 'View',
          select: 'FROM games.events',
        }));
        if (sql.includes('system.tables') && views.length > 0)
          return answer(sql, [...TABLES, ...views] as Row[]);
        if (faults.oldList.has(url) && sql.includes('uniqExact(shard_num)'))
          return answer(sql, [{ shards: '1' }] as Row[]);
        const lacking = isUnresolved ? [{ size: '3', replicas: '0', number: 0 }] : isLacking ? [] : undefined;
        const fixed = sql.includes('now64') ? clock : (lacking ?? others);
        return answer(sql, (fixed ?? answerOf(url, sql)) as Row[]);
      },
      queryRaw: () => Promise.reject(new Error('not used')),
      stream: () => Promise.reject(new Error('not used')),
      command: (sql, { insert_quorum: quorum } = {}) => {
        commands.push(`${url} ${sql}${quorum === undefined ? '' : ` with quorum ${quorum}`}`);
        return answer(sql, undefined);
      },
      insert: async ({ table, quorum }) =>
        void inserts.push(await answer('', `${table} with quorum ${quorum}`)),
      ping: async () => !faults.down.has(url),
      close: async () => {},
    };
  };
  const nodes = Object.keys(NODES).map((url) => ({ url, username: '', password: '', database: 'games' }));
  const store = await openClusterStore({ name: 'main', nodes }, 'games', logger, open);
  const partition = (number: number): Store => store.forPartition?.(number) ?? store;
  return { store, partition, inserts, commands, queries, faults };
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

test('if the quorum of a shard is lowered, its events need one replica, and the other tables still need two nodes', async () => {
  const lowered = { ...noFaults(), lowered: new Set(['1']), down: new Set(['http://b']) };
  const { store, partition, inserts } = await aClusterStore(lowered);
  for (const table of ['events', 'sessions']) await partition(0).insert(rowsFor(table));
  expect(inserts).toEqual(['events_local with quorum 1', 'sessions with quorum 2']);
  expect(await partition(0).query(EVENTS)).toEqual([]);
  expect(store.nodes?.().map((node) => [node.url, node.quorum, node.isQuorumLowered])).toEqual([
    ['http://a', 1, true],
    ['http://b', undefined, undefined],
    ['http://c', 1, false],
  ]);
  await store.close();
});

test('a quorum is restored only after two replicas have all rows', async () => {
  const { store, commands, faults } = await aClusterStore({ ...noFaults(), lowered: new Set(['1']) });
  const changes = () => commands.filter((command) => command.includes('INTO shard_quorums'));
  faults.lagging.add('http://b');
  await expect(store.changeQuorum?.('1', 2)).rejects.toThrow(
    'ClickHouse: 1 of 2 replicas of shard 1 have all rows: http://b (b of shard 1): timeout',
  );
  expect(changes()).toEqual([]);
  faults.lagging.clear();
  await store.changeQuorum?.('1', 2);
  expect(changes()).toEqual([
    expect.stringMatching(/SELECT '1', max\(version\) \+ 1, 2, .* with quorum 2$/s),
  ]);
  faults.lowered.clear();
  faults.lagging.add('http://b');
  await expect(store.changeQuorum?.('1', 2)).rejects.toThrow('1 of 2 replicas of shard 1 have all rows');
  await store.close();
});

test('a quorum is lowered without the unavailable replica, and a second request changes nothing', async () => {
  const { store, commands, faults } = await aClusterStore();
  const changes = () => commands.filter((command) => command.includes('INTO shard_quorums'));
  faults.down.add('http://b');
  await store.changeQuorum?.('1', 1);
  expect(changes()).toEqual([
    expect.stringMatching(/SELECT '1', max\(version\) \+ 1, 1, .* with quorum 2$/s),
  ]);
  faults.lowered.add('1');
  await store.changeQuorum?.('1', 1);
  expect(changes()).toHaveLength(1);
  await store.close();
});

test.each([
  ['one of two replicas, which was unavailable at the start, answers', 'down', 'http://b', 0],
  ['the only replica, which was unavailable at the start, answers', 'down', 'http://c', 1],
  ['the clock of a replica is corrected', 'late', 'http://b', 0],
  ['a replica finds its own host in DNS', 'unresolved', 'http://b', 0],
  ['a replica gets its macros', 'unnamed', 'http://b', 0],
] as const)('a shard is usable after %s', async (_, fault, url, number) => {
  const { partition, faults } = await aClusterStore({ ...noFaults(), [fault]: new Set([url]) });
  const read = () => partition(number).query('SELECT id FROM events');
  await expect(read()).rejects.toThrow(Unavailable);
  faults[fault].delete(url);
  await expect.poll(read, { timeout: 5_000 }).toEqual([]);
});

test('a start waits 10 s for a node that drops packets, which joins later', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const warn = vi.fn();
  const starting = aClusterStore({ ...noFaults(), silent: new Set(['http://c']) }, { warn });
  await vi.advanceTimersByTimeAsync(10_000);
  const { store, partition, faults } = await starting;
  expect(warn).toHaveBeenCalledExactlyOnceWith('clickhouse_node_unavailable', {
    ...{ node: 'http://c', cause: 'http://c did not answer within 10 s' },
  });
  vi.useRealTimers();
  faults.silent.clear();
  await expect.poll(() => partition(1).query(EVENTS), { timeout: 5_000 }).toEqual([]);
  await store.close();
});

test('a node without tables at the start does not change which tables the other nodes must have fetched', async () => {
  const { store, commands } = await aClusterStore({ ...noFaults(), empty: new Set(['http://a']) });
  commands.length = 0;
  await store.query(EVENTS);
  expect(commands).toContain('http://b SYSTEM SYNC REPLICA events_local LIGHTWEIGHT');
  await store.close();
});

test('a query is unavailable while a node lacks a column', async () => {
  const { partition } = await aClusterStore({ ...noFaults(), outdated: new Set(['http://b']) });
  const read = partition(0).query(EVENTS);
  await expect(read).rejects.toThrow(Unavailable);
  await expect(read).rejects.toThrow('lacks a table or a column');
});

test('logs once that a node is not used because of its clock', async () => {
  const logged: unknown[] = [];
  const warn = (event: string, fields?: object): void => void logged.push({ event, ...fields });
  const faults = { ...noFaults(), late: new Set(['http://b']) };
  const { partition } = await aClusterStore(faults, { warn });
  const read = () => partition(0).query('SELECT id FROM events');
  await expect(read()).rejects.toThrow(Unavailable);
  faults.late.delete('http://b');
  await expect.poll(read, { timeout: 5_000 }).toEqual([]);
  expect(logged).toEqual([
    {
      event: 'clickhouse_node_unavailable',
      node: 'http://b',
      cause: 'the clock of http://b differs by 10 s',
    },
  ]);
});

const EVENTS = 'SELECT id FROM events';
const SESSIONS = 'SELECT id FROM sessions';

test('reads use nodes that answer, and name a shard without such a node', async () => {
  const { store, faults } = await aClusterStore();
  const events = () => store.query(EVENTS);
  faults.down.add('http://b');
  expect([await events(), await store.query(SESSIONS)]).toEqual([[], []]);
  faults.down.add('http://c');
  await expect(events()).rejects.toThrow('ClickHouse: no replica of shard 2 answers');
  expect(await store.query(SESSIONS)).toEqual([]);
  faults.down.clear();
  await expect.poll(events).toEqual([]);
  await store.close();
});

test('a query of all shards rejects a replica that lacks rows, and prefers the position of complete replicas', async () => {
  const { store, queries, faults } = await aClusterStore();
  await store.query(EVENTS);
  expect(queries.at(-1)).toEqual({});
  faults.lagging.add('http://b');
  await store.query(EVENTS);
  expect(queries.at(-1)).toEqual({
    additional_table_filters: expect.stringMatching(
      /'games\.events_local': .* NOT IN \(\(\\'1\\', \\'a\\'\), \(\\'2\\', \\'c\\'\)\)/,
    ),
    use_hedged_requests: 0,
    load_balancing: 'first_or_random',
    load_balancing_first_offset: 0,
  });
  await store.close();
});

test('a query of a read-only account uses a node that has all rows', async () => {
  const { store, faults } = await aClusterStore();
  const reader = (url: string) => ({ ...store, url, username: 'reader' });
  const readers = [reader('http://a'), reader('http://b')];
  const usedFor = (sql: string) => store.runOn?.(sql, readers, async ({ url }) => url);
  faults.lagging.add('http://a');
  for (let reads = 0; reads < 5; reads++)
    expect([await usedFor(SESSIONS), await usedFor(EVENTS)]).toEqual(['http://b', 'http://b']);
  faults.down.add('http://b');
  await expect(usedFor(SESSIONS)).rejects.toThrow('no usable node of the cluster main answers');
  await store.close();
});

test('a query of a view that an operator has created since the start uses a node that has all rows', async () => {
  const { store, faults } = await aClusterStore();
  const readers = ['http://a', 'http://b'].map((url) => ({ ...store, url, username: 'reader' }));
  faults.views.add('daily');
  faults.lagging.add('http://a');
  for (let reads = 0; reads < 10; reads++)
    expect(await store.runOn?.('SELECT * FROM daily', readers, async ({ url }) => url)).toBe('http://b');
  await store.close();
});

test('a query of all shards does not run on a node whose remote_servers lack a shard', async () => {
  const { store, faults } = await aClusterStore();
  const readers = ['http://a', 'http://b'].map((url) => ({ ...store, url, username: 'reader' }));
  const usedFor = (sql: string) => store.runOn?.(sql, readers, async ({ url }) => url);
  faults.oldList.add('http://a');
  for (let reads = 0; reads < 5; reads++) expect(await usedFor(EVENTS)).toBe('http://b');
  faults.oldList.add('http://b');
  await expect(usedFor(EVENTS)).rejects.toThrow('no usable node of the cluster main answers');
  expect(readers.map(({ url }) => url)).toContain(await usedFor(SESSIONS));
  faults.oldList.clear();
  await expect.poll(() => usedFor(EVENTS), { timeout: 5_000 }).toMatch(/http/);
  await store.close();
});

test.each(['down', 'lagging', 'empty'] as const)(
  'reads do not ask a node that is %s if another replica answers, until the node has all rows',
  async (fault) => {
    const { store, commands, faults } = await aClusterStore();
    const syncsOf = (table: string) =>
      commands.filter((command) => command.startsWith(`http://b SYSTEM SYNC REPLICA ${table}`)).length;
    faults[fault].add('http://b');
    expect(await store.query(EVENTS)).toEqual([]);
    const syncs = syncsOf('events_local');
    // The probe repeats the statement that failed.
    await expect.poll(() => syncsOf('events_local'), { timeout: 5_000 }).toBeGreaterThan(syncs + 1);
    for (let reads = 0; reads < 5; reads++)
      for (const sql of [SESSIONS, `${EVENTS} WHERE session_id IN (${SESSIONS})`])
        expect(await store.query(sql)).toEqual([]);
    expect(syncsOf('sessions')).toBe(0);
    faults[fault].clear();
    const readSessions = async () => {
      await store.query(`${EVENTS} WHERE session_id IN (${SESSIONS})`);
      return syncsOf('sessions');
    };
    await expect.poll(readSessions, { timeout: 5_000 }).toBeGreaterThan(0);
    await store.close();
  },
);

test('rejects the rows of all shards for a read-only account while ClickHouse can choose a replica that lacks rows', async () => {
  const { store, faults } = await aClusterStore();
  faults.lagging.add('http://b');
  faults.reachable.add('http://b');
  const readers = [{ ...store, url: 'http://a', username: 'reader' }];
  const usedFor = (sql: string) => store.runOn?.(sql, readers, async ({ url }) => url);
  await expect(usedFor(EVENTS)).rejects.toThrow('ClickHouse: b of shard 1 does not have all rows yet');
  expect(await usedFor(SESSIONS)).toBe('http://a');
  await store.close();
});

test('a deletion can continue later if a node has no tables, and the error names the node', async () => {
  const { store, faults } = await aClusterStore();
  faults.empty.add('http://b');
  const error =
    'http://b (b of shard 1): ClickHouse: a node lacks a table or a column; restart Questlog: Unknown table';
  await expect(onEachNode(store, (node) => node.query(EVENTS))).rejects.toThrow(error);
  const remove = 'ALTER TABLE sessions DELETE WHERE 1';
  await expect(onEachNode(store, (node) => node.command(remove))).rejects.toThrow(error);
});

test('after a failure, the next statement on each shard uses another replica', async () => {
  const { store, faults } = await aClusterStore();
  faults.down.add('http://a');
  const insert = () => onEachShard(store, (shard) => shard.command('INSERT INTO sessions VALUES (1)'));
  await expect(insert()).rejects.toThrow(Unavailable);
  await insert();
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
