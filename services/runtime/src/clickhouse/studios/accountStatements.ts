/**
 * Builds the statements that create, change, and drop the accounts of studios on a ClickHouse server (decision 0061).
 * - No statement has `OR REPLACE`, because `OR REPLACE` gives the user or the policy a new id. The policies of a replaced user
 *   would apply to nobody, and by default, ClickHouse shows all rows to an account without a policy.
 * - An account gets its grants last, so that the account can read a table only after its policies exist.
 */
import { STUDIO_RULES, type StudioReader } from '../studioTables.ts';

/** Objects of one node that decide what an account can read. */
export interface NodeState {
  /** Tables and views of the database. The value is true if the table has the column `project_id`. */
  readonly tables: ReadonlyMap<string, boolean>;
  readonly users: ReadonlySet<string>;
  /** Policies of the database, as `<policy> <table>`. */
  readonly policies: ReadonlySet<string>;
  /** Names of the quotas of this database's accounts. */
  readonly quotas: ReadonlySet<string>;
}

/** Returns the tables and views that accounts of studios can read, including their local tables and views in a cluster. */
export function readableTables({ tables }: Pick<NodeState, 'tables'>): string[] {
  return [...tables.keys()].filter((table) => !['hidden', undefined].includes(ruleOf(table))).toSorted();
}

function ruleOf(table: string): string | undefined {
  return STUDIO_RULES[table] ?? STUDIO_RULES[table.replace(/_(?:local|shard)$/, '')];
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
    ...[...HIDDEN_SIZES].flatMap(([table, condition]) => [
      `CREATE ROW POLICY IF NOT EXISTS ${SIZES} ON system.${table} USING ${condition} TO ALL`,
      `ALTER ROW POLICY ${SIZES} ON system.${table} USING ${condition} TO ALL`,
    ]),
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
  const login = `${user} IDENTIFIED WITH sha256_hash BY '${sha256}' VALID UNTIL '${until}' SETTINGS PROFILE ${quoted(profileOf(database))}`;
  const readable = readableTables(node);
  const conditions = Map.groupBy(readable, (table) => conditionOf(account, node.tables.get(table) === true));
  return {
    restrict: [
      `CREATE QUOTA IF NOT EXISTS ${quota}`,
      `CREATE USER IF NOT EXISTS ${login}`,
      `ALTER USER ${login}`,
      ...[...conditions].flatMap(([condition, tables]) => {
        const policies = `${onTables(username, database, tables)} USING ${condition} TO ${user}`;
        return [`CREATE ROW POLICY IF NOT EXISTS ${policies}`, `ALTER ROW POLICY ${policies}`];
      }),
      `ALTER QUOTA ${quota} KEYED BY user_name FOR INTERVAL 1 hour MAX execution_time = ${QUOTA_SECONDS} TO ${user}`,
    ],
    permit: `GRANT ${readable.map((table) => `SELECT ON ${database}.${table}`).join(', ')} TO ${user} WITH REPLACE OPTION`,
  };
}

/** Returns the statements that drop an account. The last statement drops the quota, so that an interrupted drop is repeated. */
export function dropStatements(database: string, node: NodeState, username: string): string[] {
  const tables = [...node.tables.keys()].filter((table) => node.policies.has(`${username} ${table}`));
  return [
    `DROP USER IF EXISTS ${quoted(username)}`,
    ...(tables.length === 0 ? [] : [`DROP ROW POLICY IF EXISTS ${onTables(username, database, tables)}`]),
    `DROP QUOTA IF EXISTS ${quoted(quotaOf(database, username))}`,
  ];
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
 * account of a studio still reads these tables, and sees the views with the same rows. The conditions are equal for all databases
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
  ...`max_threads max_block_size final join_use_nulls extremes date_time_output_format
    output_format_json_quote_64bit_integers enable_http_compression network_compression_method
    network_zstd_compression_level async_insert wait_for_async_insert alter_sync mutations_sync
    lightweight_deletes_sync insert_distributed_sync send_progress_in_http_headers
    http_headers_progress_interval_ms`
    .split(/\s+/)
    .map((name) => `${name} CHANGEABLE_IN_READONLY`),
].join(', ');
