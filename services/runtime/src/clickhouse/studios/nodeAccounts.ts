/** Creates and drops the accounts of studios on one node of ClickHouse. */
import { messageOf, Unavailable } from '../../process/errors.ts';
import type { Logger } from '../../process/logger.ts';
import { coalesceCalls, withinLimit } from '../../process/waiting.ts';
import { type AddressedStore, openStore, type Store, type StoreOptions } from '../store.ts';
import type { StudioReader } from '../studioTables.ts';
import {
  ALL_ROWS,
  accountStatements,
  accountsOf,
  dropStatements,
  dropUserStatement,
  isComplete,
  isRestricted,
  type NodeState,
  profileOf,
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
  /** Returns why the node lacks the current accounts. Undefined if the node has the accounts, or never had an account. */
  problem(): string | undefined;
  /**
   * Returns why the node must not have accounts of studios. Undefined if the node can have accounts.
   * @throws Unavailable if the node does not answer
   */
  refusal(limitMs: number): Promise<string | undefined>;
  close(): Promise<void>;
}

export interface CurrentAccounts {
  /** Accounts that the node must have. Each change replaces the list. */
  readonly accounts: readonly StudioReader[];
  /** Resolves after `accounts` contains all changes that any process has made before the call. */
  caughtUp(): Promise<void>;
}

export function openNodeAccounts(
  address: StoreOptions,
  current: CurrentAccounts,
  options: NodeAccountsOptions,
): NodeAccounts {
  const store = openStore(address);
  const refusal = () =>
    refusalOf(store, { cluster: options.cluster, minVersion: options.minVersion ?? MIN_VERSION });
  const accountsOfNode = new AccountsOfNode(store, options.unrestricted, refusal, current);
  /** Accounts of the last attempt. */
  let latest: readonly StudioReader[] | undefined;
  let failure: string | undefined;
  const isUsed = (): boolean => current.accounts.length > 0 || accountsOfNode.isUsed;
  const apply = async (accounts: readonly StudioReader[]): Promise<void> => {
    try {
      if (isUsed() || latest === undefined || failure !== undefined) await accountsOfNode.apply(accounts);
      failure = undefined;
    } catch (error) {
      const cause = isDenied(error) ? `${missingGrants(store)}: ${error.message}` : messageOf(error);
      const message = `${address.url}: ${cause}`;
      if (failure !== message && isUsed() && accounts === current.accounts)
        options.logger.warn('clickhouse_readers_not_applied', { node: address.url, cause });
      failure = message;
    }
    latest = accounts;
  };
  const reconcile = coalesceCalls(async () => {
    do await apply(current.accounts);
    while (latest !== current.accounts);
  });
  const problem = () => (latest === current.accounts ? failure : `${address.url}: does not answer`);
  return {
    reconcile,
    problem: () => (isUsed() ? problem() : undefined),
    refusal: (limitMs) =>
      withinLimit(refusal(), limitMs, () => {
        throw new Unavailable(`${address.url}: does not answer`);
      }),
    close: () => store.close(),
  };
}

class AccountsOfNode {
  readonly #store: AddressedStore;
  readonly #unrestricted: readonly string[];
  readonly #refusal: () => Promise<string | undefined>;
  readonly #current: CurrentAccounts;
  /** True if this process has had an account for the node, or has found an account on the node. */
  isUsed = false;
  /** Accounts for which this process has run all statements on the node. */
  readonly #applied = new Set<string>();
  /** Names of the tables for which this process has created the policies that all accounts share. */
  #sharedTables = '';

  constructor(
    store: AddressedStore,
    unrestricted: readonly string[],
    refusal: () => Promise<string | undefined>,
    current: CurrentAccounts,
  ) {
    this.#store = store;
    this.#unrestricted = unrestricted;
    this.#refusal = refusal;
    this.#current = current;
  }

  async apply(accounts: readonly StudioReader[]): Promise<void> {
    this.isUsed ||= accounts.length > 0;
    const node = await readState(this.#store).catch((error: unknown) => {
      // Without accounts, the product's account needs no permission to manage accounts.
      if (!this.isUsed && isDenied(error)) return undefined;
      throw error;
    });
    if (node === undefined) return;
    await this.#drop(node, accounts);
    if (accounts.length === 0) return;
    await this.#share(node);
    const created: StudioReader[] = [];
    try {
      for (const account of accounts) {
        const isApplied = this.#applied.has(account.username);
        if (isApplied && isComplete(this.#store.database, node, account)) continue;
        await this.#create(node, account, accounts);
        created.push(account);
      }
    } finally {
      if (created.length > 0) await this.#requireRestricted(node, created);
    }
  }

  /** Drops the accounts of the node that are not in `accounts`. */
  async #drop(node: NodeState, accounts: readonly StudioReader[]): Promise<void> {
    const { database } = this.#store;
    const kept = new Set(accounts.map(({ username }) => username));
    const dropped = accountsOf(database, node).difference(kept);
    if (dropped.size === 0) return;
    this.isUsed = true;
    // Usernames are never used again, so an account that this process has created is dropped without a further check.
    if (!dropped.isSubsetOf(this.#applied)) await this.#requireCurrent(accounts);
    for (const username of dropped) {
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

  /**
   * Creates or changes an account. Also checks before the GRANT that the account is current, because another process can drop the
   * account meanwhile. After the user is dropped, the GRANT fails.
   */
  async #create(node: NodeState, account: StudioReader, accounts: readonly StudioReader[]): Promise<void> {
    const { username } = account;
    const { restrict, permit } = accountStatements(this.#store.database, node, account);
    await this.#requireCurrent(accounts);
    await this.#run(restrict);
    await requireHiddenSystemTables(this.#store, username);
    await this.#requireCurrent(accounts);
    await this.#run([permit]);
  }

  /**
   * Drops each created account whose policies another process has removed meanwhile. Reads the state of the node only once for all
   * accounts, because the state grows with the number of accounts.
   */
  async #requireRestricted(node: NodeState, created: readonly StudioReader[]): Promise<void> {
    const current = { ...(await readState(this.#store)), tables: node.tables };
    const isSafe = ({ username }: StudioReader): boolean => isRestricted(current, username);
    for (const { username } of created.filter(isSafe)) this.#applied.add(username);
    const unsafe = created.filter((account) => !isSafe(account));
    for (const { username } of unsafe) await this.#run([dropUserStatement(username)]);
    if (unsafe.length === 0) return;
    const names = unsafe.map(({ username }) => username).join(', ');
    throw new Unavailable(`another process has removed policies of ${names}`);
  }

  /** @throws Unavailable if any process has changed the accounts. `reconcile` then applies the changed accounts. */
  async #requireCurrent(accounts: readonly StudioReader[]): Promise<void> {
    await this.#current.caughtUp();
    if (accounts !== this.#current.accounts) throw new Unavailable('the accounts have changed');
  }

  async #run(statements: readonly string[]): Promise<void> {
    for (const statement of statements) await this.#store.command(statement);
  }
}

async function readState(store: Store): Promise<NodeState> {
  const { database } = store;
  const read = <Row>(sql: string): Promise<Row[]> =>
    store.query<Row>(
      sql,
      { database, profile: profileOf(database), quotas: quotaOf(database, 'reader-') },
      UNLOGGED,
    );
  const [columns, users, policies, quotas, profiles, grants] = await Promise.all([
    read<{ table: string; hasProject: number }>(
      `SELECT table, max(name = 'project_id') AS hasProject FROM system.columns
       WHERE database = {database:String} GROUP BY table`,
    ),
    read<{ name: string }>('SELECT name FROM system.users'),
    read<{ name: string; users: string[] }>(
      `SELECT concat(short_name, ' ', table) AS name, apply_to_list AS users FROM system.row_policies
       WHERE database = {database:String}`,
    ),
    read<{ name: string }>('SELECT name FROM system.quotas WHERE startsWith(name, {quotas:String})'),
    read<{ name: string; fingerprint: string }>(
      `SELECT assumeNotNull(user_name) AS name, ifNull(anyIf(value, setting_name = 'log_comment'), '') AS fingerprint
       FROM system.settings_profile_elements WHERE startsWith(user_name, 'reader-')
       GROUP BY user_name HAVING countIf(inherit_profile = {profile:String}) > 0`,
    ),
    read<{ name: string; grants: string[] }>(
      `SELECT assumeNotNull(user_name) AS name,
              arraySort(groupArray(concat(access_type, ' ', ifNull(database, ''), '.', ifNull(table, '')))) AS grants
       FROM system.grants WHERE startsWith(user_name, 'reader-') GROUP BY user_name`,
    ),
  ]);
  const names = (rows: readonly { readonly name: string }[]) => new Set(rows.map(({ name }) => name));
  return {
    tables: new Map(columns.map(({ table, hasProject }) => [table, hasProject === 1])),
    ...{ users: names(users), quotas: names(quotas) },
    policies: new Map(policies.map((policy) => [policy.name, policy.users])),
    fingerprints: new Map(profiles.map(({ name, fingerprint }) => [name, fingerprint])),
    grants: new Map(grants.map((of) => [of.name, of.grants])),
  };
}

/** Each node is read every few seconds, so the log of queries does not contain these queries. */
const UNLOGGED = { log_queries: 0 };
