/**
 * A store whose inserts and reads use a quorum of replicas. Before a read, each replica fetches all parts that Keeper lists for
 * the tables of the query. The results of a quorum of replicas must then be equal. If only one replica has a part, the rows of
 * the part do not count as stored.
 */
import { isDeepStrictEqual } from 'node:util';
import { messageOf, Unavailable } from '../../process/errors.ts';
import { shuffled } from '../../process/shuffled.ts';
import { pause } from '../../process/waiting.ts';
import type { Store } from '../store.ts';
import { idTable, localName, withLocalNames } from './tables/clusterSchema.ts';

export interface ReplicaSet {
  /** For example `shard 1`. */
  readonly name: string;
  /** True if statements read the sharded tables of this shard. False if statements read only tables that every node has. */
  readonly isShard: boolean;
  readonly database: string;
  /** Replicas that have answered. Replicas can join later. */
  readonly replicas: readonly Store[];
  /** Number of replicas that must have a row. */
  readonly quorum: number;
  /** Quorum that applies if no operator has lowered the quorum. A read compares the answers of up to this number of replicas. */
  readonly fullQuorum: number;
  /** For the name of each table and view, the replicated tables that a query of this name reads. */
  readonly tablesOf: ReadonlyMap<string, readonly string[]>;
  readonly insertsEndWithinMs: number;
}

export function quorumStore(set: ReplicaSet): Store {
  const { name, isShard, database, insertsEndWithinMs } = set;
  const renamed = (sql: string): string => (isShard ? withLocalNames(sql) : sql);
  let preferred = 0;
  /**
   * Uses one replica. After a failure, the next call uses another replica, because the outcome of a failed insert is unknown.
   */
  const onOneReplica = async <T>(work: (store: Store) => Promise<T>): Promise<T> => {
    const used = preferred;
    const { replicas } = set;
    const store = replicas[used % replicas.length];
    if (store === undefined) throw new Unavailable(`ClickHouse: no replica of ${name} answers`);
    try {
      return await work(store);
    } catch (error) {
      if (error instanceof Unavailable && preferred === used) preferred++;
      throw error;
    }
  };
  /** Reads from one replica after the other until a replica answers. */
  const onAnyReplica = async <T>(read: (store: Store) => Promise<T>): Promise<T> => {
    for (let untried = set.replicas.length; ; untried--) {
      try {
        return await onOneReplica(read);
      } catch (error) {
        if (!(error instanceof Unavailable) || untried <= 1) throw error;
      }
    }
  };
  return {
    ...{ database, localName, idTable, insertsEndWithinMs },
    query: async (sql, params, settings) => {
      const localSql = renamed(sql);
      const tables = tablesIn(localSql, set.tablesOf);
      if (tables.length === 0) return await onAnyReplica((store) => store.query(localSql, params, settings));
      return await readAgainIfDifferent(() =>
        onQuorum(set, async (store) => {
          await syncTables(store, tables);
          if (set.quorum < set.fullQuorum) await requireCheckedParts(store, tables);
          return await store.query(localSql, params, settings);
        }),
      );
    },
    queryRaw: (sql, ...more) => onOneReplica((store) => store.queryRaw(renamed(sql), ...more)),
    stream: (sql, ...more) => onOneReplica((store) => store.stream(renamed(sql), ...more)),
    command: (sql, own) =>
      onOneReplica(async (store) => {
        const localSql = renamed(sql);
        if (readsRows(sql)) await syncTables(store, tablesIn(localSql, set.tablesOf));
        await store.command(localSql, { insert_quorum: set.quorum, ...own });
      }),
    insert: (insert) => {
      const table = isShard ? localName(insert.table) : insert.table;
      return onOneReplica((store) => store.insert({ ...insert, table, quorum: set.quorum }));
    },
    ping: async () => (await Promise.all(set.replicas.map((store) => store.ping()))).includes(true),
    // Does not close the stores of the replicas, because another quorum store can use them. `openClusterStore` closes them.
    close: async () => {},
  };
}

/** True for an `INSERT … SELECT`, which must find all rows. */
export function readsRows(sql: string): boolean {
  return /^\s*INSERT\b[\s\S]*\bSELECT\b/i.test(sql);
}

/** Waits until a replica has fetched all parts that Keeper lists for the tables. @throws Unavailable after 10 s. */
export async function syncTables(store: Store, tables: readonly string[]): Promise<void> {
  await Promise.all(tables.map((table) => store.command(`SYSTEM SYNC REPLICA ${table} LIGHTWEIGHT`)));
}

/**
 * If Keeper fails during an insert, ClickHouse stores the part on the replica, and removes the part about five minutes later if
 * Keeper does not list the part. With a full quorum, no other replica returns the rows of such a part.
 * @throws Unavailable while a part of the tables is not checked
 */
async function requireCheckedParts(store: Store, tables: readonly string[]): Promise<void> {
  const unchecked = await store.query<{ table: string }>(
    `SELECT table FROM system.replicas
     WHERE database = currentDatabase() AND table IN {tables:Array(String)} AND parts_to_check > 0`,
    { tables },
  );
  if (unchecked.length === 0) return;
  const names = unchecked.map(({ table }) => table).join(', ');
  throw new Unavailable(`ClickHouse has not checked the latest parts of ${names}`);
}

export function tablesIn(sql: string, tablesOf: ReplicaSet['tablesOf']): string[] {
  return [...new Set((sql.match(/\w+/g) ?? []).flatMap((word) => tablesOf.get(word) ?? []))];
}

/**
 * Time after which a read asks one more replica if a replica has not answered. If the quorum is lowered, a read waits this time
 * for a second replica, to compare the answers.
 */
const SLOW_REPLICA_MS = 500;

/** Maximum number of attempts of a read. The rows of the replicas can differ because an insert takes effect during a read. */
const MAX_READS = 3;

class DifferentRows extends Unavailable {
  constructor(replicaSet: string) {
    super(`ClickHouse: the replicas of ${replicaSet} have different rows`);
  }
}

async function readAgainIfDifferent<Row>(read: () => Promise<Row[]>): Promise<Row[]> {
  for (let reads = 1; ; reads++) {
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof DifferentRows) || reads === MAX_READS) throw error;
    }
  }
}

/** Returns the rows that a quorum of replicas returns. Asks more replicas only if a replica fails or is slow. */
async function onQuorum<Row>(
  { name, replicas, quorum, fullQuorum }: ReplicaSet,
  ask: (store: Store) => Promise<Row[]>,
): Promise<Row[]> {
  if (replicas.length < quorum)
    throw new Unavailable(
      `ClickHouse: only ${replicas.length} of ${quorum} replicas of ${name} have answered`,
    );
  const answers: Row[][] = [];
  const failures: unknown[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  const unasked = shuffled(replicas);
  const askNext = (): void => {
    const store = unasked.shift();
    if (store === undefined) return;
    ask(store)
      .then(
        (rows) => answers.push(rows),
        (error: unknown) => {
          failures.push(error);
          askNext();
        },
      )
      .then(() => {
        if (answers.length >= fullQuorum || answers.length + failures.length === replicas.length) resolve();
        else if (answers.length >= quorum) void pause(SLOW_REPLICA_MS).then(resolve);
      });
  };
  for (let asked = 0; asked < fullQuorum; asked++) askNext();
  const asking = setInterval(askNext, SLOW_REPLICA_MS);
  await promise;
  clearInterval(asking);
  const [first, ...others] = answers.slice(0, fullQuorum);
  if (first === undefined || answers.length < quorum) {
    const rejected = failures.find((error) => !(error instanceof Unavailable));
    if (rejected !== undefined) throw rejected;
    throw new Unavailable(
      `ClickHouse: ${answers.length} of ${quorum} replicas of ${name} answer: ${failures.map(messageOf).join('; ')}`,
      { cause: failures[0] },
    );
  }
  if (others.some((rows) => !isDeepStrictEqual(sorted(rows), sorted(first)))) throw new DifferentRows(name);
  return first;
}

/** Sorts rows, and arrays in rows, because replicas return them in the order of their parts. */
function sorted(rows: readonly unknown[]): string[] {
  return rows
    .map((row) => JSON.stringify(row, (_, value) => (Array.isArray(value) ? value.toSorted() : value)))
    .sort();
}
