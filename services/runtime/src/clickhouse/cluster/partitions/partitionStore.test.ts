/** Tests which shards read and write the rows of a partition before and after a move. */
import { expect, test } from 'vitest';
import type { Store } from '../../store.ts';
import { PartitionShards } from './partitionShards.ts';
import { partitionStore } from './partitionStore.ts';

const assigned = (version: number, shard: string, takesEffectAtMs = 0) => ({
  ...{ partition: 7, version, shard },
  takesEffectAtMs: String(takesEffectAtMs),
});

async function shardsOf(rows: object[], nowMs: number) {
  const query = (async () => rows) as Store['query'];
  const shards = new PartitionShards({ query }, { now: () => nowMs });
  await shards.refresh();
  return shards.of(7);
}

test('a move takes effect at its time, and every shard of the partition is read from the start', async () => {
  const rows = [assigned(0, 'a'), assigned(1, 'b', 100)];
  const shards = ['a', 'b'];
  expect(await shardsOf(rows, 99)).toMatchObject({ shard: 'a', lastShard: 'b', shards });
  expect(await shardsOf(rows, 100)).toMatchObject({ shard: 'b', lastShard: 'b', shards });
});

test('two moves with the same version use the last shard, and the rows of both shards are read', async () => {
  const rows = [assigned(0, 'a'), assigned(1, 'b', 100), assigned(1, 'c', 90)];
  expect(await shardsOf(rows, 95)).toMatchObject({ shard: 'c' });
  expect(await shardsOf(rows, 100)).toMatchObject({ shard: 'c', lastVersion: 1, shards: ['a', 'b', 'c'] });
});

test('reads each shard of the partition, and writes only to one shard', async () => {
  const calls: string[] = [];
  const storeOf = (name: string): Store =>
    ({
      query: async () => [name],
      command: async (sql: string) => void calls.push(`${name}: ${sql}`),
      insert: async ({ table }: { table: string }) => void calls.push(`${name}: ${table}`),
    }) as unknown as Store;
  const [a, b] = [storeOf('a'), storeOf('b')];
  const store = partitionStore({
    history: () => [a, b],
    current: () => b,
    wholeTables: storeOf('all'),
    tablesOf: new Map([
      ['events', ['events_local']],
      ['erased_events', ['erased_events_local']],
      ['sessions', ['sessions']],
    ]),
  });
  expect(await store.query('SELECT id FROM events')).toEqual(['a', 'b']);
  expect(await store.query('SELECT id FROM sessions')).toEqual(['all']);
  await store.command('ALTER TABLE events DELETE WHERE 1');
  for (const table of ['events', 'erased_events', 'sessions'])
    await store.insert({ table, columns: [], rows: Buffer.of() });
  // ClickHouse merges the rows of `erased_events`, so a repeated insert must go to the same shard as the first insert.
  expect(calls).toEqual([
    ...['a: ALTER TABLE events DELETE WHERE 1', 'b: ALTER TABLE events DELETE WHERE 1'],
    ...['b: events', 'a: erased_events', 'all: sessions'],
  ]);
});
