/** Creates and drops the accounts of studios on one node of ClickHouse. */
import { messageOf, Unavailable } from '../../process/errors.ts';
import type { Logger } from '../../process/logger.ts';
import { coalesceCalls, withinLimit } from '../../process/waiting.ts';
import { type AddressedStore, openStore, type Store, type StoreOptions } from '../store.ts';
import type { StudioReader } from '../studioTables.ts';
import {
  ALL_ROWS,
  accountStatements,
  dropStatements,
  type NodeState,
  quotaOf,
  readableTables,
  sharedStatements,
} from './accountStatements.ts';
import { isDenied, MIN_VERSION, missingGrants, refusalOf, requireHiddenSystemTables } from './refusals.ts';

export interface NodeAccountsOptions {
  /** Name of the cluster in `remote_servers`. Undefined for one server. */
  readonly cluster: string | undefined;
  /** Users that read all rows, for example the product's account. */
  readonly unrestricted: readonly string[];
  readonly logger: Pick<Logger, 'warn'>;
  /** Lowest supported version. Only tests with an older ClickHouse set this version. */
  readonly minVersion?: string | undefined;
}

export interface NodeAccounts {
  /** Makes the accounts of the node equal to the current accounts. Never rejects. */
  reconcile(): Promise<void>;
  /** Returns why the node lacks the current accounts. Undefined if the node has the accounts. */
  problem(): string | undefined;
  /** Returns why the node must not have accounts of studios. Undefined if the node can have accounts or does not answer. */
  refusal(limitMs: number): Promise<string | undefined>;
  close(): Promise<void>;
}

/** @param current returns the accounts that the node must have */
export function openNodeAccounts(
  address: StoreOptions,
  current: () => readonly StudioReader[],
  options: NodeAccountsOptions,
): NodeAccounts {
  const store = openStore(address);
  const refusal = () =>
    refusalOf(store, { cluster: options.cluster, minVersion: options.minVersion ?? MIN_VERSION });
  const accountsOfNode = new AccountsOfNode(store, options.unrestricted, refusal);
  /** Accounts of the last attempt. */
  let latest: readonly StudioReader[] | undefined;
  let failure: string | undefined;
  const reconcile = coalesceCalls(async () => {
    const accounts = current();
    const isUnused = accounts.length === 0 && latest?.length === 0 && failure === undefined;
    try {
      if (!isUnused) await accountsOfNode.apply(accounts);
      failure = undefined;
    } catch (error) {
      const cause = isDenied(error) ? `${missingGrants(store)}: ${error.message}` : messageOf(error);
      const message = `${address.url}: ${cause}`;
      if (failure !== message && accounts.length > 0)
        options.logger.warn('clickhouse_readers_not_applied', { node: address.url, cause });
      failure = message;
    }
    latest = accounts;
  });
  return {
    reconcile,
    problem: () => (latest === current() ? failure : `${address.url}: does not answer`),
    refusal: (limitMs) => withinLimit(refusal(), limitMs, () => undefined).catch(() => undefined),
    close: () => store.close(),
  };
}

class AccountsOfNode {
  readonly #store: AddressedStore;
  readonly #unrestricted: readonly string[];
  readonly #refusal: () => Promise<string | undefined>;
  /** Each account that this process has created on the node, as JSON. */
  readonly #applied = new Map<string, string>();
  /** Tables with the policies and settings that all accounts share. */
  #sharedTables = '';

  constructor(
    store: AddressedStore,
    unrestricted: readonly string[],
    refusal: () => Promise<string | undefined>,
  ) {
    this.#store = store;
    this.#unrestricted = unrestricted;
    this.#refusal = refusal;
  }

  async apply(accounts: readonly StudioReader[]): Promise<void> {
    const node = await readState(this.#store).catch((error: unknown) => {
      // Without accounts, the product's account needs no permission to manage accounts.
      if (accounts.length === 0 && isDenied(error)) return undefined;
      throw error;
    });
    if (node === undefined) return;
    await this.#drop(node, accounts);
    if (accounts.length === 0) return;
    await this.#share(node);
    for (const account of accounts) await this.#create(node, account);
  }

  /** Drops the accounts of the node that are not in `accounts`. */
  async #drop(node: NodeState, accounts: readonly StudioReader[]): Promise<void> {
    const { database } = this.#store;
    const kept = new Set(accounts.map(({ username }) => quotaOf(database, username)));
    for (const quota of node.quotas) {
      if (kept.has(quota)) continue;
      const username = quota.slice(database.length + 1);
      await this.#run(dropStatements(database, node, username));
      this.#applied.delete(username);
    }
  }

  /** Creates the policies and settings that all accounts share. */
  async #share(node: NodeState): Promise<void> {
    const tables = readableTables(node);
    const isShared = tables.every((table) => node.policies.has(`${ALL_ROWS} ${table}`));
    if (isShared && tables.join(' ') === this.#sharedTables) return;
    const reason = await this.#refusal();
    if (reason !== undefined) throw new Unavailable(reason);
    await this.#run(sharedStatements(this.#store.database, node, this.#unrestricted));
    this.#sharedTables = tables.join(' ');
    this.#applied.clear();
  }

  async #create(node: NodeState, account: StudioReader): Promise<void> {
    const { username } = account;
    const text = JSON.stringify(account);
    const { database } = this.#store;
    if (this.#applied.get(username) === text && isComplete(node, database, username)) return;
    const { restrict, permit } = accountStatements(database, node, account);
    await this.#run(restrict);
    await requireHiddenSystemTables(this.#store, username);
    await this.#run([permit]);
    this.#applied.set(username, text);
  }

  async #run(statements: readonly string[]): Promise<void> {
    for (const statement of statements) await this.#store.command(statement);
  }
}

function isComplete(node: NodeState, database: string, username: string): boolean {
  return (
    node.users.has(username) &&
    node.quotas.has(quotaOf(database, username)) &&
    readableTables(node).every((table) => node.policies.has(`${username} ${table}`))
  );
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
