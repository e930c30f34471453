/** One node of a simulated cluster as one process sees it: requests with faults, quorum inserts, and system tables. */
import type { QuerySettings } from '@questlog/runtime/clickhouse/cluster/chosenReplicas';
import type { Insert, Store } from '@questlog/runtime/clickhouse/store';
import { messageOf, Unavailable } from '@questlog/runtime/process/errors';
import { LEDGER_DIFFERENCE } from '@questlog/schemas/tables/ledgerDifference';
import { parseStatement } from '../clickhouse/parseSql.ts';
import { LATEST_MS, type Process, type World } from '../world/world.ts';
import type { ClusterNode } from './clusterNode.ts';
import type { Part, ReplicatedTable } from './replicatedTable.ts';
import { type SimulatedCluster, tableIn } from './simulatedCluster.ts';

export interface NodeClient {
  readonly world: World;
  readonly cluster: SimulatedCluster;
  readonly node: ClusterNode;
  readonly by: Process;
  /** Called with the name of a table after rows are inserted. */
  onInsert(table: string): void;
}

interface Reply<T> {
  done(value: T): void;
  failed(why: string): void;
}

/** Time limit of a client for a response. */
const CLIENT_LIMIT_MS = 30_000;
/**
 * Time limit of a node for a quorum, and for missing parts. Shorter than the limit of a server (10 s), so that a short run has
 * many expired limits.
 */
const NODE_LIMIT_MS = 1_000;
/** Age at which a node gives up a request that it has not started. An insert never takes effect later. */
const OLDEST_REQUEST_MS = 40_000;

export function nodeStoreOf(client: NodeClient): Store {
  return {
    ...{ database: 'questlog', insertsEndWithinMs: LATEST_MS },
    query: <Row>(sql: string, params = {}, settings = {}) =>
      request<Row[]>(client, `query ${tableIn(sql)}`, ({ done }) =>
        done(rowsOf(client, sql, params, settings) as Row[]),
      ),
    command: (sql, settings = {}) =>
      request(client, sql.slice(0, 40), (reply: Reply<void>) => run(client, sql, settings, reply)),
    insert: (insert) =>
      request(client, `insert ${insert.table}`, (reply: Reply<void>) => put(client, insert, reply), true),
    queryRaw: unsupported,
    stream: unsupported,
    ping: () => request<boolean>(client, 'ping', ({ done }) => done(true)).catch(() => false),
    close: async () => {},
  };
}

async function unsupported(): Promise<never> {
  throw new Error('the simulated ClickHouse does not support this call');
}

/** Sends a request to the node, which starts the work when it runs, and answers later. */
async function request<T>(
  { world, cluster, node, by }: NodeClient,
  what: string,
  work: (reply: Reply<T>) => void,
  mayBeLate = false,
): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  promise.catch(() => {});
  const sentAtMs = world.nowMs;
  const { uuid } = cluster;
  const named = `${what} on ${node.url}`;
  const fail = (why: string): void => reject(new Unavailable(`${named}: ${why}`));
  const answer = (tell: () => void): void => {
    node.requests.delete(breakOff);
    const delayMs = world.dice.between(0, 20) / 10;
    node.whenRunning(world.nowMs, () => world.in(delayMs, by, `${named}: answered`, tell));
  };
  const reply: Reply<T> = {
    done: (value) => answer(() => resolve(value)),
    failed: (why) => answer(() => fail(why)),
  };
  const breakOff = (): void => reply.failed('the connection was reset');
  const start = (): void => {
    try {
      if (node.state !== 'running' || cluster.uuid !== uuid) throw new Unavailable('connection refused');
      node.requests.add(breakOff);
      work(reply);
    } catch (error) {
      if (!(error instanceof Unavailable))
        world.findings.push(`${error instanceof Error ? error.stack : error}`);
      reply.failed(messageOf(error));
    }
  };
  const arrive = (): void => {
    node.whenRunning(world.nowMs, () => {
      if (world.nowMs - sentAtMs <= OLDEST_REQUEST_MS) start();
    });
  };
  const forgetLimit = world.in(CLIENT_LIMIT_MS, by, `${named}: not answered`, () =>
    fail('no answer in time'),
  );
  try {
    await world.ask({ by, what: named, mayBeLate, work: arrive });
    return await promise;
  } finally {
    forgetLimit();
  }
}

function rowsOf(
  { cluster, node }: NodeClient,
  sql: string,
  params: Readonly<Record<string, unknown>>,
  settings: QuerySettings,
): unknown[] {
  if (sql === LEDGER_DIFFERENCE) return [];
  if (sql.includes('version()')) return [{ version: '26.7' }];
  // The store of a cluster compares the clock of a node with the real clock of the process.
  if (sql.includes('now64')) return [{ at: String(Date.now()) }];
  if (sql.includes('FROM system.clusters'))
    return [
      {
        size: String(cluster.nodes.length),
        shards: String(new Set(cluster.nodes.map(({ shard }) => shard)).size),
        replicas: String(cluster.nodes.length / 2),
        number: cluster.replicasOf(node.shard).indexOf(node) + 1,
      },
    ];
  if (sql.includes('FROM system.macros'))
    return Object.entries({ shard: node.shard, replica: node.replica }).map(([macro, substitution]) => ({
      macro,
      substitution,
    }));
  if (sql.includes('FROM system.tables'))
    return cluster.tables().map((table) => ({ ...table, uuid: cluster.uuid }));
  if (sql.includes('FROM system.columns') || sql.includes('FROM system.data_skipping_indices')) return [];
  if (sql.includes('FROM system.mutations'))
    return cluster
      .runningMutations(node)
      .filter((one) => Object.values(params).every((text) => one.sql.includes(String(text))))
      .map(({ table, sql: command }) => ({ table, command, reason: '' }));
  return cluster.queryOn(node, sql, params, settings);
}

/** @throws Unavailable if the node rejects the statement */
function run(client: NodeClient, sql: string, settings: QuerySettings, reply: Reply<void>): void {
  const { cluster, node } = client;
  requireKeeper(client);
  const synced = /^SYSTEM SYNC REPLICA (?:\w+\.)?(\w+) LIGHTWEIGHT/.exec(sql)?.[1];
  if (synced !== undefined) {
    sync(client, cluster.tableOn(node, synced), reply);
    return;
  }
  const statement = parseStatement(sql);
  const table = cluster.tableOn(node, statement.table);
  if (statement.kind === 'insert') {
    const rows = table.definition.rowsOfSelect(statement, cluster.catalogOf(node, settings));
    const quorum = Number(settings['insert_quorum'] ?? 0);
    waitForQuorum(client, table, table.add(node, rows, quorum), reply);
    return;
  }
  table.mutate(sql, table.definition.mutation(statement));
  cluster.announceMutations(table);
  if (table.nodes.some((other) => !cluster.isActive(other))) throw new Unavailable('UNFINISHED');
  const isDone = () => table.nodes.every((other) => !table.runningMutations(other).includes(sql));
  cluster.waitFor(node, CLIENT_LIMIT_MS, isDone, (isInTime) => {
    if (isInTime) reply.done();
    else reply.failed('UNFINISHED');
  });
}

function requireKeeper({ cluster, node }: NodeClient): void {
  if (!cluster.isWritable(node)) throw new Unavailable('TABLE_IS_READ_ONLY');
}

function sync({ cluster, node }: NodeClient, table: ReplicatedTable, reply: Reply<void>): void {
  const parts = [...table.parts];
  const hasAll = () => parts.every((part) => !table.parts.has(part) || table.has(node, part));
  cluster.waitFor(node, NODE_LIMIT_MS, hasAll, (isInTime) => {
    if (isInTime) reply.done();
    else reply.failed('TIMEOUT_EXCEEDED');
  });
}

/** @throws Unavailable if the node rejects the insert */
function put(client: NodeClient, insert: Insert, reply: Reply<void>): void {
  const { world, cluster, node } = client;
  const { deduplicationToken: token, quorum = 0 } = insert;
  const table = cluster.tableOn(node, insert.table);
  requireKeeper(client);
  if (table.nodes.filter((other) => cluster.isActive(other)).length < quorum)
    throw new Unavailable('TOO_FEW_LIVE_REPLICAS');
  if (token !== undefined && table.tokens.has(token)) {
    const stored = table.tokens.get(token);
    if (stored === undefined) reply.done();
    else waitForQuorum(client, table, stored, reply);
    return;
  }
  if (token !== undefined && world.dice.chance(world.troubles.burnt)) {
    table.tokens.set(token, undefined);
    throw new Unavailable('ClickHouse died');
  }
  const part = table.add(node, table.definition.rowsOfInsert(insert), quorum);
  if (token !== undefined) table.tokens.set(token, part);
  client.onInsert(insert.table);
  waitForQuorum(client, table, part, reply);
}

function waitForQuorum(
  { cluster, node }: NodeClient,
  table: ReplicatedTable,
  part: Part,
  reply: Reply<void>,
): void {
  cluster.announce(table, part);
  const isDecided = () => part.isComplete || !table.parts.has(part);
  cluster.waitFor(node, NODE_LIMIT_MS, isDecided, () => {
    if (part.isComplete) reply.done();
    else reply.failed('UNKNOWN_STATUS_OF_INSERT');
  });
}
