/** Tests which answers of replicas count as stored rows, and which replica gets an insert. */
import { expect, test } from 'vitest';
import { Unavailable } from '../../process/errors.ts';
import type { Store } from '../store.ts';
import { quorumStore } from './quorumStore.ts';

const INSERT = { table: 'events', columns: ['id'], rows: Buffer.of(1) };

interface FakeReplica extends Store {
  readonly statements: string[];
}

/**
 * @param answer rows of each query. Undefined if the replica does not answer.
 * @param unchecked tables with a part that Keeper may not list
 */
function aReplica(answer: readonly unknown[] | undefined, unchecked: readonly string[] = []): FakeReplica {
  const statements: string[] = [];
  const respond = async (statement: string): Promise<void> => {
    statements.push(statement);
    if (answer === undefined) throw new Unavailable('connection refused');
  };
  return {
    ...{ statements, database: 'games', insertsEndWithinMs: 0 },
    query: async <Row>(sql: string) => {
      await respond(sql);
      const isCheck = sql.includes('parts_to_check');
      return (isCheck ? unchecked.map((table) => ({ table })) : [...(answer ?? [])]) as Row[];
    },
    queryRaw: () => Promise.reject(new Error('not used')),
    stream: () => Promise.reject(new Error('not used')),
    command: respond,
    insert: ({ table }) => respond(`INSERT INTO ${table}`),
    ping: async () => answer !== undefined,
    close: async () => {},
  };
}

function storeWithQuorum(quorum: number, replicas: readonly Store[]): Store {
  return quorumStore({
    ...{ name: 'shard 1', isShard: true, database: 'games', replicas, quorum, fullQuorum: 2 },
    ...{ insertsEndWithinMs: 0, tablesOf: new Map([['events_local', ['events_local']]]) },
  });
}

const storeOf = (...replicas: Store[]): Store => storeWithQuorum(2, replicas);

const read = (store: Store) => store.query('SELECT id FROM events');

test('reads the local table on each replica after the replica has fetched all parts', async () => {
  const replicas = [aReplica([{ id: 1 }]), aReplica([{ id: 1 }])];
  expect(await read(storeOf(...replicas))).toEqual([{ id: 1 }]);
  const statements = ['SYSTEM SYNC REPLICA events_local LIGHTWEIGHT', 'SELECT id FROM events_local'];
  expect(replicas.map((replica) => replica.statements)).toEqual([statements, statements]);
});

test('the order of rows and of arrays does not matter', async () => {
  const one = aReplica([{ ids: ['a', 'b'] }, { ids: [] }]);
  const other = aReplica([{ ids: [] }, { ids: ['b', 'a'] }]);
  expect(await read(storeOf(one, other))).toHaveLength(2);
});

test('rows that only one replica has do not count', async () => {
  const store = storeOf(aReplica([{ id: 1 }]), aReplica([]));
  await expect(read(store)).rejects.toThrow('the replicas of shard 1 have different rows');
});

test('reads again if an insert takes effect between the reads of two replicas', async () => {
  const reads = [[], [{ id: 1 }]];
  const late: Store = { ...aReplica([]), query: async <Row>() => (reads.shift() ?? []) as Row[] };
  expect(await read(storeOf(aReplica([{ id: 1 }]), late))).toEqual([{ id: 1 }]);
});

test('with a lowered quorum, one replica is enough, but replicas that answer must have equal rows', async () => {
  const silent: Store = { ...aReplica([]), query: () => new Promise(() => {}) };
  const here = aReplica([{ id: 1 }]);
  for (const other of [aReplica(undefined), silent])
    expect(await read(storeWithQuorum(1, [other, here]))).toEqual([{ id: 1 }]);
  await expect(read(storeWithQuorum(1, [aReplica([]), here]))).rejects.toThrow('have different rows');
});

test('with a lowered quorum, rows do not count as stored while ClickHouse has not checked their part', async () => {
  const here = aReplica([{ id: 1 }], ['events_local']);
  const reading = read(storeWithQuorum(1, [aReplica(undefined), here]));
  await expect(reading).rejects.toThrow('ClickHouse has not checked the latest parts of events_local');
  expect(await read(storeWithQuorum(2, [aReplica([{ id: 1 }], ['events_local']), here]))).toHaveLength(1);
});

test('one of three replicas can be lost, but not two', async () => {
  const [here, lost] = [aReplica([{ id: 1 }]), aReplica(undefined)];
  expect(await read(storeOf(here, lost, aReplica([{ id: 1 }])))).toEqual([{ id: 1 }]);
  await expect(read(storeOf(here, lost, lost))).rejects.toThrow(
    '1 of 2 replicas of shard 1 answer: connection refused',
  );
});

test('reads only from as many replicas as must have the rows', async () => {
  const replicas = [1, 2, 3].map(() => aReplica([{ id: 1 }]));
  await read(storeOf(...replicas));
  expect(replicas.filter(({ statements }) => statements.length > 0)).toHaveLength(2);
});

test('reads from another replica if a replica does not answer soon', async () => {
  const silent = { ...aReplica([]), command: () => new Promise<never>(() => {}) };
  const [one, other] = [aReplica([{ id: 1 }]), aReplica([{ id: 1 }])];
  expect(await read(storeOf(silent, one, other))).toEqual([{ id: 1 }]);
});

test('after a failed insert, the next insert uses another replica', async () => {
  const [lost, here] = [aReplica(undefined), aReplica([])];
  const store = storeOf(lost, here);
  await expect(store.insert(INSERT)).rejects.toThrow(Unavailable);
  await store.insert(INSERT);
  expect(here.statements).toEqual(['INSERT INTO events_local']);
});

test('a read without a table uses another replica if a replica does not answer', async () => {
  const [lost, here] = [aReplica(undefined), aReplica([{ parts: 3 }])];
  const parts = (store: Store) => store.query('SELECT parts FROM system.parts');
  expect(await parts(storeOf(lost, here))).toEqual([{ parts: 3 }]);
  await expect(parts(storeOf(lost, lost))).rejects.toThrow(Unavailable);
});
