/**
 * Builds the statements that create, change, and drop the accounts of studios on a ClickHouse server (decision 0061).
 * - No statement has `OR REPLACE`, because `OR REPLACE` gives the user or the policy a new id. The policies of a replaced user
 *   would apply to nobody, and by default, ClickHouse shows all rows to an account without a policy.
 * - An account gets its grants last, so that the account can read a table only after its policies exist.
 */
import { hash } from 'node:crypto';
import { STUDIO_RULES, type StudioReader } from '../studioTables.ts';

/** Objects of one node that decide what an account can read. */
export interface NodeState {
  /** Tables and views of the database. The value is true if the table has the column `project_id`. */
  readonly tables: ReadonlyMap<string, boolean>;
  readonly users: ReadonlySet<string>;
  /** Policies of the database, as `<policy> <table>`, with the users that have the policy. */
  readonly policies: ReadonlyMap<string, readonly string[]>;
  /** Names of the quotas of this database's accounts. */
  readonly quotas: ReadonlySet<string>;
  /** Users with the settings profile of this database, with their fingerprints. */
  readonly fingerprints: ReadonlyMap<string, string>;
  /** Grants of each account, as `<access type> <database>.<table>`. */
  readonly grants: ReadonlyMap<string, readonly string[]>;
}

/** Returns the tables and views that accounts of studios can read, including their local tables and views in a cluster. */
export function readableTables({ tables }: Pick<NodeState, 'tables'>): string[] {
  return [...tables.keys()].filter((table) => !['hidden', undefined].includes(ruleOf(table))).toSorted();
}

const RULES = new Map<string, string>(Object.entries(STUDIO_RULES));

function ruleOf(table: string): string | undefined {
  return RULES.get(table) ?? RULES.get(table.replace(/_(?:local|shard)$/, ''));
}

/** Returns the accounts of this database: users with the settings profile, and owners of quotas. */
export function accountsOf(database: string, { quotas, fingerprints }: NodeState): ReadonlySet<string> {
  const owners = [...quotas].map((quota) => quota.slice(quotaOf(database, '').length));
  return new Set([...owners, ...fingerprints.keys()]);
}

/** True if the node has the account with its password, expiry, policies, quota, and grants. */
export function isComplete(database: string, node: NodeState, account: StudioReader): boolean {
  const { username } = account;
  const grants = readableTables(node).map((table) => `SELECT ${database}.${table}`);
  return (
    node.fingerprints.get(username) === fingerprintOf(account) &&
    node.quotas.has(quotaOf(database, username)) &&
    isRestricted(node, username) &&
    node.grants.get(username)?.join() === grants.join()
  );
}

/** True if the account has its policies on every table that it can read. */
export function isRestricted(node: NodeState, username: string): boolean {
  return readableTables(node).every((table) =>
    [username, restrictive(username)].every((policy) =>
      node.policies.get(`${policy} ${table}`)?.includes(username),
    ),
  );
}

/**
 * Returns a text that changes with the password, the scope, and the expiry of an account. Each account has the text as its setting
 * `log_comment`, because ClickHouse does not show the hash of a password.
 */
function fingerprintOf({ sha256, tenantId, projectId, expiresAt }: StudioReader): string {
  return hash('sha256', [sha256, tenantId, projectId, expiresAt].join());
}

/** Returns the name of an account's quota. The quota also marks the account as an account of this database. */
export function quotaOf(database: string, username: string): string {
  return `${database}.${username}`;
}

export const ALL_ROWS = 'questlog_all';
const SIZES = 'questlog_sizes';

export function profileOf(database: string): string {
  return `${database}_studio`;
}

/**
 * Returns the statements for the objects that all accounts share.
 * @param unrestricted users that read all rows. Without a policy of their own, the first policy of an account could hide all rows
 *   from these users.
 */
export function sharedStatements(
  database: string,
  node: NodeState,
  unrestricted: readonly string[],
): string[] {
  const all = onTables(ALL_ROWS, database, readableTables(node));
  const to = unrestricted
    .filter((user) => node.users.has(user))
    .map(quoted)
    .join(', ');
  const profile = quoted(profileOf(database));
  return [
    `CREATE ROW POLICY IF NOT EXISTS ${all} USING 1 TO ${to}`,
    `ALTER ROW POLICY ${all} USING 1 TO ${to}`,
    ...[...HIDDEN_SIZES].flatMap(([table, condition]) =>
      policyStatements(SIZES, { database: 'system', tables: [table] }, condition, 'ALL'),
    ),
    `CREATE SETTINGS PROFILE IF NOT EXISTS ${profile} SETTINGS readonly = 1`,
    `ALTER SETTINGS PROFILE ${profile} SETTINGS ${PROFILE}`,
  ];
}

export interface AccountStatements {
  /** Statements that create or change the account. A new account still has no grants after these statements. */
  readonly restrict: readonly string[];
  /** Statement that permits the account to read the tables. */
  readonly permit: string;
}

export function accountStatements(
  database: string,
  node: NodeState,
  account: StudioReader,
): AccountStatements {
  const { username, sha256, expiresAt } = account;
  const [user, quota] = [quoted(username), quoted(quotaOf(database, username))];
  const until = expiresAt === null ? 'infinity' : new Date(expiresAt).toISOString();
  const login = `${user} IDENTIFIED WITH sha256_hash BY '${sha256}' VALID UNTIL '${until}' SETTINGS PROFILE ${quoted(profileOf(database))}, log_comment = '${fingerprintOf(account)}'`;
  const readable = readableTables(node);
  const conditions = Map.groupBy(readable, (table) => conditionOf(account, node.tables.get(table) === true));
  return {
    restrict: [
      `CREATE QUOTA IF NOT EXISTS ${quota}`,
      `CREATE USER IF NOT EXISTS ${login}`,
      `ALTER USER ${login}`,
      ...[...conditions].flatMap(([condition, tables]) =>
        policyStatements(username, { database, tables }, condition, user),
      ),
      `ALTER QUOTA ${quota} KEYED BY user_name FOR INTERVAL 1 hour MAX execution_time = ${QUOTA_SECONDS} TO ${user}`,
    ],
    permit: `GRANT ${readable.map((table) => `SELECT ON ${database}.${table}`).join(', ')} TO ${user} WITH REPLACE OPTION`,
  };
}

/** Returns the statements that drop an account. The last statement drops the quota, so that an interrupted drop is repeated. */
export function dropStatements(database: string, node: NodeState, username: string): string[] {
  const policies = [username, restrictive(username)].flatMap((policy) => {
    const tables = [...node.tables.keys()].filter((table) => node.policies.has(`${policy} ${table}`));
    return tables.length === 0 ? [] : [onTables(policy, database, tables)];
  });
  return [
    dropUserStatement(username),
    ...policies.map((names) => `DROP ROW POLICY IF EXISTS ${names}`),
    `DROP QUOTA IF EXISTS ${quoted(quotaOf(database, username))}`,
  ];
}

export function dropUserStatement(username: string): string {
  return `DROP USER IF EXISTS ${quoted(username)}`;
}

/**
 * Returns the statements for a permissive and a restrictive policy with the same condition. ClickHouse returns a row if at least one
 * permissive policy and all restrictive policies permit the row. Without the restrictive policy, a permissive policy of the operator
 * could show all rows.
 */
function policyStatements(
  policy: string,
  { database, tables }: { readonly database: string; readonly tables: readonly string[] },
  condition: string,
  users: string,
): string[] {
  const permissive = `${onTables(policy, database, tables)} USING ${condition} AS PERMISSIVE TO ${users}`;
  const restricting = `${onTables(restrictive(policy), database, tables)} USING ${condition} AS RESTRICTIVE TO ${users}`;
  // The permissive policy comes first. Otherwise, all rows are hidden in between if users without policies read no rows.
  return [permissive, restricting].flatMap((text) => [
    `CREATE ROW POLICY IF NOT EXISTS ${text}`,
    `ALTER ROW POLICY ${text}`,
  ]);
}

function restrictive(policy: string): string {
  return `${policy}_restrictive`;
}

function conditionOf({ tenantId, projectId }: StudioReader, hasProject: boolean): string {
  if (projectId === null) return `tenant_id = '${tenantId}'`;
  return hasProject ? `tenant_id = '${tenantId}' AND project_id = '${projectId}'` : '0';
}

function onTables(policy: string, database: string, tables: readonly string[]): string {
  return tables.map((table) => `${quoted(policy)} ON ${database}.${table}`).join(', ');
}

function quoted(name: string): string {
  return `\`${name.replaceAll(/[\\`]/g, '\\$&')}\``;
}

const QUOTA_SECONDS = 3_600;

/**
 * Conditions of the policies of `system.tables` and `system.columns`, which hide the sizes of tables from accounts of studios. An
 * account of a studio still sees the rows of the views, which have the same columns. The conditions are equal for all databases
 * and true for all other users, because every user of the server has these policies.
 */
const HIDDEN_SIZES = new Map(
  Object.entries({ tables: 'name', columns: 'table' }).map(([table, column]) => {
    const stored = Object.keys(STUDIO_RULES).filter((name) =>
      ['project', 'tenant'].includes(ruleOf(name) ?? ''),
    );
    const names = [...stored, ...stored.map((name) => `${name}_local`)].map((name) => `'${name}'`);
    return [
      table,
      `NOT match(currentUser(), '^reader-[0-9a-f-]{36}$') OR ${column} NOT IN (${names.join(', ')})`,
    ];
  }),
);

/**
 * Settings of the accounts. ClickHouse checks a row policy before any other condition, so that an error message never contains a
 * value of another studio. The caches of conditions and results are disabled, because they can reveal which conditions rows meet.
 */
const PROFILE = [
  'readonly = 1',
  ...['apply_row_policy_after_final = 0', 'use_query_condition_cache = 0', 'use_query_cache = 0'],
  ...['output_format_write_statistics = 0', 'max_concurrent_queries_for_user = 2'],
  "session_timezone = 'UTC' CHANGEABLE_IN_READONLY",
  'cancel_http_readonly_queries_on_client_close = 1 CHANGEABLE_IN_READONLY',
  'max_execution_time = 30 MIN 1 MAX 3600 CHANGEABLE_IN_READONLY',
  'max_memory_usage = 1000000000 MIN 1 MAX 1000000000 CHANGEABLE_IN_READONLY',
  'max_result_rows MIN 1 MAX 100000 CHANGEABLE_IN_READONLY',
  'max_result_bytes MIN 1 MAX 268435456 CHANGEABLE_IN_READONLY',
  'result_overflow_mode CONST',
  ...['max_threads MAX 16 CHANGEABLE_IN_READONLY', 'max_block_size MAX 65536 CHANGEABLE_IN_READONLY'],
  ...`final join_use_nulls extremes date_time_output_format
    output_format_json_quote_64bit_integers enable_http_compression network_compression_method
    network_zstd_compression_level async_insert wait_for_async_insert alter_sync mutations_sync
    lightweight_deletes_sync insert_distributed_sync send_progress_in_http_headers
    http_headers_progress_interval_ms`
    .split(/\s+/)
    .map((name) => `${name} CHANGEABLE_IN_READONLY`),
].join(', ');
