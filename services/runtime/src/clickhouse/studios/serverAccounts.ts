/**
 * Creates the accounts of studios on every node of a ClickHouse server or cluster, and repairs the accounts periodically. A node
 * that was unavailable, or that lost its accounts, gets the accounts when the node answers again.
 */
import { ClickHouseError } from '@clickhouse/client';
import { sha256Hex } from '../../directory/directory.ts';
import { messageOf, Unavailable } from '../../process/errors.ts';
import type { Logger } from '../../process/logger.ts';
import { coalesceCalls, runPeriodically, withinLimit } from '../../process/waiting.ts';
import { CONNECT_BRIEFLY } from '../cluster/clusterReads.ts';
import { type AddressedStore, openStore, type Store, type StoreOptions } from '../store.ts';
import type { StudioAccounts, StudioReader } from '../studioTables.ts';
import { isOlderVersion } from '../waitForClickHouse.ts';
import {
  ALL_ROWS,
  accountStatements,
  dropStatements,
  type NodeState,
  quotaOf,
  readableTables,
  sharedStatements,
} from './accountStatements.ts';

/** Before this version, `mergeTreeIndex` reads rows that a policy hides (ClickHouse#115304). */
const MIN_VERSION = '26.7.6.5';
const INTERVAL_MS = 5_000;
/** Time after which a change does not wait for a node any longer. */
const ANSWER_LIMIT_MS = 5_000;
/** Value of `system.processes.interface` for a connection between nodes that uses the cluster's secret. */
const WITH_SECRET = 7;

export interface ServerAccountsOptions {
  /** Address that is sent to the owner of a new account. */
  readonly url: string;
  /** All nodes, with the product's account. */
  readonly nodes: readonly StoreOptions[];
  /** Name of the cluster in `remote_servers`. Undefined for one server. */
  readonly cluster: string | undefined;
  readonly database: string;
  /** Users that read all rows, for example the product's account. */
  readonly unrestricted: readonly string[];
  readonly logger: Pick<Logger, 'warn'>;
  /** Lowest supported version. Only tests with an older ClickHouse set this version. */
  readonly minVersion?: string | undefined;
}

export type ServerAccounts = StudioAccounts & { close(): Promise<void> };

export function openServerAccounts(options: ServerAccountsOptions): ServerAccounts {
  let accounts: readonly StudioReader[] = [];
  const nodes = options.nodes.map((address) => openNode(address, () => accounts, options));
  const reconcile = async (): Promise<void> => {
    await Promise.all(nodes.map((node) => withinLimit(node.reconcile(), ANSWER_LIMIT_MS, () => {})));
  };
  let stop: (() => Promise<void>) | undefined;
  return {
    ...{ url: options.url, database: options.database },
    refusal: async () => {
      const refusals = await Promise.all(nodes.map((node) => node.refusal()));
      return refusals.find((refusal) => refusal !== undefined);
    },
    set: async (changed) => {
      accounts = changed;
      await reconcile();
      stop ??= runPeriodically(reconcile, { firstMs: INTERVAL_MS, everyMs: INTERVAL_MS }, () => {});
      const problems = nodes.map(({ problem }) => problem());
      if (problems.every((problem) => problem !== undefined)) throw new Unavailable(problems.join('; '));
    },
    warning: () => {
      const problems = nodes.flatMap(({ problem }) => problem() ?? []);
      return accounts.length === 0 || problems.length === 0 ? undefined : problems.join('; ');
    },
    close: async () => {
      await stop?.();
      await Promise.all(nodes.map((node) => node.close()));
    },
  };
}

interface AccountsNode {
  /** Makes the accounts of the node equal to the current accounts. Never rejects. */
  reconcile(): Promise<void>;
  /** Returns why the node lacks the current accounts. Undefined if the node has the accounts. */
  problem(): string | undefined;
  /** Returns why the node must not have accounts of studios. Undefined if the node can have accounts or does not answer. */
  refusal(): Promise<string | undefined>;
  close(): Promise<void>;
}

function openNode(
  address: StoreOptions,
  current: () => readonly StudioReader[],
  { cluster, unrestricted, logger, minVersion = MIN_VERSION }: ServerAccountsOptions,
): AccountsNode {
  const store = openStore(address);
  /** Hash of each account that this process has created on the node. */
  const applied = new Map<string, string>();
  /** Tables with the policies and settings that all accounts share. */
  let sharedTables = '';
  let latest: readonly StudioReader[] | undefined;
  let failure: string | undefined;
  const refusal = () => refusalOf(store, { cluster, minVersion });
  const drop = async (node: NodeState, accounts: readonly StudioReader[]): Promise<void> => {
    const { database } = store;
    const kept = new Set(accounts.map(({ username }) => quotaOf(database, username)));
    for (const quota of node.quotas) {
      if (kept.has(quota)) continue;
      const username = quota.slice(database.length + 1);
      await runAll(store, dropStatements(database, node, username));
      applied.delete(username);
    }
  };
  const share = async (node: NodeState): Promise<void> => {
    const tables = readableTables(node);
    const isShared = tables.every((table) => node.policies.has(`${ALL_ROWS} ${table}`));
    if (isShared && tables.join(' ') === sharedTables) return;
    const reason = await refusal();
    if (reason !== undefined) throw new Unavailable(reason);
    await runAll(store, sharedStatements(store.database, node, unrestricted));
    sharedTables = tables.join(' ');
    applied.clear();
  };
  const create = async (node: NodeState, account: StudioReader): Promise<void> => {
    const { username } = account;
    const hash = sha256Hex(JSON.stringify(account));
    if (applied.get(username) === hash && isComplete(node, store.database, username)) return;
    const { restrict, permit } = accountStatements(store.database, node, account);
    await runAll(store, restrict);
    await requireHiddenSystemTables(store, username);
    await store.command(permit);
    applied.set(username, hash);
  };
  const apply = async (accounts: readonly StudioReader[]): Promise<void> => {
    const node = await readState(store).catch((error: unknown) => {
      // Without accounts, the product's account needs no permission to manage accounts.
      if (accounts.length === 0 && isDenied(error)) return undefined;
      throw error;
    });
    if (node === undefined) return;
    await drop(node, accounts);
    if (accounts.length === 0) return;
    await share(node);
    for (const account of accounts) await create(node, account);
  };
  const run = coalesceCalls(async () => {
    const accounts = current();
    try {
      await apply(accounts);
      failure = undefined;
    } catch (error) {
      const text = isDenied(error) ? `${missingGrants(store)}: ${error.message}` : messageOf(error);
      const message = `${address.url}: ${text}`;
      if (failure !== message && accounts.length > 0)
        logger.warn('clickhouse_readers_not_applied', { node: address.url, cause: text });
      failure = message;
    }
    latest = accounts;
  });
  return {
    reconcile: run,
    problem: () => (latest === current() ? failure : `${address.url}: does not answer`),
    refusal: () => withinLimit(refusal(), ANSWER_LIMIT_MS, () => undefined).catch(() => undefined),
    close: () => store.close(),
  };
}

function isComplete(node: NodeState, database: string, username: string): boolean {
  return (
    node.users.has(username) &&
    node.quotas.has(quotaOf(database, username)) &&
    readableTables(node).every((table) => node.policies.has(`${username} ${table}`))
  );
}

async function runAll(store: Store, statements: readonly string[]): Promise<void> {
  for (const statement of statements) await store.command(statement);
}

async function readState(store: Store): Promise<NodeState> {
  const { database } = store;
  const [columns, users, policies, quotas] = await Promise.all([
    store.query<{ table: string; hasProject: number }>(
      `SELECT table, max(name = 'project_id') AS hasProject FROM system.columns
       WHERE database = {database:String} GROUP BY table`,
      { database },
    ),
    store.query<{ name: string }>('SELECT name FROM system.users'),
    store.query<{ name: string }>(
      "SELECT concat(short_name, ' ', table) AS name FROM system.row_policies WHERE database = {database:String}",
      { database },
    ),
    store.query<{ name: string }>('SELECT name FROM system.quotas WHERE startsWith(name, {prefix:String})', {
      prefix: quotaOf(database, 'reader-'),
    }),
  ]);
  const names = (rows: readonly { readonly name: string }[]) => new Set(rows.map(({ name }) => name));
  return {
    tables: new Map(columns.map(({ table, hasProject }) => [table, hasProject === 1])),
    ...{ users: names(users), policies: names(policies), quotas: names(quotas) },
  };
}

async function refusalOf(
  store: AddressedStore,
  { cluster, minVersion }: { readonly cluster: string | undefined; readonly minVersion: string },
): Promise<string | undefined> {
  const [row] = await store.query<{ version: string }>('SELECT version() AS version');
  const version = row?.version ?? '';
  if (isOlderVersion(version, minVersion))
    return `ClickHouse ${version} is too old for accounts of studios, which need ${minVersion} or newer`;
  for (const grant of ['ACCESS MANAGEMENT ON *.*', 'SELECT ON system.*']) {
    const [check] = await store.query<{ result: number }>(`CHECK GRANT ${grant}`);
    if (check?.result !== 1) return missingGrants(store);
  }
  return cluster === undefined ? undefined : await clusterRefusal(store, cluster);
}

/**
 * Without a secret, a node runs the queries of other nodes as a user of its own. If the node lacks the account of a studio, the
 * policies of the account do not apply.
 */
async function clusterRefusal(store: Store, cluster: string): Promise<string | undefined> {
  const connections = await store.query<{ interface: number }>(
    `SELECT DISTINCT interface FROM clusterAllReplicas({cluster:String}, system.processes)
     WHERE initial_query_id = initialQueryID() AND NOT is_initial_query`,
    { cluster },
    CONNECT_BRIEFLY,
  );
  if (connections.every((connection) => connection.interface === WITH_SECRET)) return undefined;
  return `accounts of studios need a <secret> for the cluster ${cluster} in remote_servers`;
}

/** By default, ClickHouse permits every user to read system tables such as `query_log`, unless the setting is enabled. */
async function requireHiddenSystemTables(store: Store, username: string): Promise<void> {
  const grants = await store.query<Record<string, string>>(
    `SHOW GRANTS FOR \`${username}\` WITH IMPLICIT FINAL`,
  );
  if (!grants.some((row) => / ON (?:system|\*)\.\* /.test(Object.values(row).join()))) return;
  throw new Unavailable(
    'accounts of studios need select_from_system_db_requires_grant in the access_control_improvements of ClickHouse',
  );
}

function missingGrants({ username, database }: AddressedStore): string {
  const grants = `GRANT ACCESS MANAGEMENT ON *.* TO ${username}; GRANT SELECT ON system.* TO ${username}; GRANT SELECT ON ${database}.* TO ${username} WITH GRANT OPTION`;
  return `the account ${username} needs more permissions for accounts of studios: ${grants}`;
}

function isDenied(error: unknown): error is Error {
  return (
    error instanceof Error && error.cause instanceof ClickHouseError && error.cause.code === ACCESS_DENIED
  );
}

const ACCESS_DENIED = '497';
