/**
 * Derives the tables of a ClickHouse cluster from the tables of a single server (decision 0058).
 * - The tables in `SHARDED` become replicated tables `<name>_local`, whose shards have different rows.
 * - Every other table becomes a replicated table that is complete on every node.
 * - A view over a sharded table becomes a view `<name>_shard` over the local rows.
 * - A Distributed table with the original name reads these views on all shards, and rejects inserts.
 */
import { StartRefused, Unavailable } from '../../../process/errors.ts';
import type { Column, SkippingIndex, Table } from './tableState.ts';

/** Tables that grow with events. Their rows are on the shard of their log partition. */
export const SHARDED: ReadonlySet<string> = new Set(['events', 'appends', 'erased_events']);

const LOCAL = '_local';
const SHARD = '_shard';
const PLAIN = { defaultKind: '', defaultExpression: '', codec: '' };

export interface ClusterNames {
  /** Database of the given tables. */
  readonly from: string;
  readonly database: string;
  readonly cluster: string;
  /** Storage policy of the replicated tables. Empty or undefined if the storage policies do not change. */
  readonly storagePolicy?: string;
}

export interface ClusterTable extends Table {
  /**
   * `shard`: replicated within a shard; `all`: replicated to all nodes; `node`: a view or a Distributed table, which each node
   * has of its own.
   */
  readonly replication: 'shard' | 'all' | 'node';
}

/** Returns the tables that every node must have: first the replicated tables, then views, then Distributed tables. */
export function clusterTables(tables: readonly Table[], names: ClusterNames): ClusterTable[] {
  const stored = [
    ...tables.filter((table) => !isView(table)),
    ...[PARTITION_SHARDS_TABLE, SHARD_QUORUMS_TABLE, RESTORE_MARKER_TABLE],
  ];
  const views = tables.filter(isView);
  const viewsOfShards = new Set(namesOfViewsOfShards(views, names.from));
  const rename = (select: string): string => localSelect(select, viewsOfShards, names);
  const perShard = [
    ...stored.filter(({ name }) => SHARDED.has(name)).map((table) => shardView(table, rows(table, names))),
    ...views
      .filter(({ name }) => viewsOfShards.has(name))
      .map((view) => shardView(view, rename(view.select))),
  ];
  return [
    ...stored.map((table) => replicatedTable(table, names)),
    ...views
      .filter(({ name }) => !viewsOfShards.has(name))
      .map((view): ClusterTable => ({ ...view, select: rename(view.select), replication: 'node' })),
    ...perShard,
    ...perShard.map((view) => distributedTable(view, names)),
  ];
}

/** Table with the shards of each log partition. Rows are only added, because an older shard keeps its rows of the partition. */
export const PARTITION_SHARDS = 'partition_shards';

const PARTITION_SHARDS_TABLE: Table = {
  name: PARTITION_SHARDS,
  engine: 'MergeTree ORDER BY (log_partition, version, shard)',
  settings: { fsync_after_insert: '1', fsync_part_directory: '1' },
  select: '',
  comment:
    'Shards of each log partition. New rows go to the shard with the highest version that is in effect.',
  columns: [
    { ...PLAIN, name: 'log_partition', type: 'UInt32', comment: 'Partition of the log' },
    { ...PLAIN, name: 'shard', type: 'String', comment: 'Value of the macro {shard} of the shard' },
    { ...PLAIN, name: 'version', type: 'UInt32', comment: 'Number of earlier moves of the partition' },
    {
      ...{ ...PLAIN, name: 'takes_effect_at', type: "DateTime64(3, 'UTC')" },
      comment: 'Time from which the shard gets new rows',
    },
  ],
  indices: [],
};

/** Table with the changes of the shards' quorums. Rows are only added. */
export const SHARD_QUORUMS = 'shard_quorums';

const SHARD_QUORUMS_TABLE: Table = {
  name: SHARD_QUORUMS,
  engine: 'MergeTree ORDER BY (shard, version)',
  settings: { fsync_after_insert: '1', fsync_part_directory: '1' },
  select: '',
  comment: 'Changes of the number of replicas of a shard that must have a row. The highest version applies.',
  columns: [
    { ...PLAIN, name: 'shard', type: 'String', comment: 'Value of the macro {shard} of the shard' },
    { ...PLAIN, name: 'version', type: 'UInt32', comment: 'Number of this change, from 1' },
    { ...PLAIN, name: 'quorum', type: 'UInt8', comment: 'Number of replicas that must have a row' },
    {
      ...{ ...PLAIN, name: 'takes_effect_at', type: "DateTime64(3, 'UTC')" },
      comment: 'Time at which no process uses the previous quorum any more',
    },
  ],
  indices: [],
};

/**
 * Table whose UUID is the restore marker of the sharded tables on all shards. The UUID changes if a shard has lost rows, for
 * example because the shard was restored from a backup.
 */
export const RESTORE_MARKER = 'restore_marker';

const RESTORE_MARKER_TABLE: Table = {
  name: RESTORE_MARKER,
  engine: 'MergeTree ORDER BY tuple()',
  settings: {},
  select: '',
  comment: 'Table without rows. Its UUID changes if a shard was restored or has lost rows.',
  columns: [{ ...PLAIN, name: 'unused', type: 'UInt8', comment: 'ClickHouse requires a column' }],
  indices: [],
};

/** Returns the name of the table whose UUID identifies the rows of a table on all nodes (docs/decisions/0040). */
export function idTable(table: string): string {
  return SHARDED.has(table) ? RESTORE_MARKER : table;
}

/** Returns the name of the table with the rows of one shard. Other tables keep their name. */
export function localName(table: string): string {
  return SHARDED.has(table) ? `${table}${LOCAL}` : table;
}

/** Replaces the names of sharded tables in a statement by the names of the tables with the rows of one shard. */
export function withLocalNames(sql: string): string {
  return sql.replace(
    /\b(FROM|JOIN|INTO|TABLE)(\s+)(\w+)\b/g,
    (_, before: string, space: string, table: string) => [before, space, localName(table)].join(''),
  );
}

/**
 * A retry of an insert can arrive at most seven days later, because the log keeps records for seven days. An erasure waits until
 * replaced parts are removed, which by default can take five minutes.
 */
const REPLICATION_SETTINGS = {
  replicated_deduplication_window: '10000',
  replicated_deduplication_window_seconds: '604800',
  min_compressed_bytes_to_fsync_after_fetch: '1',
  max_cleanup_delay_period: '30',
};

function replicatedTable(table: Table, { storagePolicy = '' }: ClusterNames): ClusterTable {
  const isSharded = SHARDED.has(table.name);
  const path = `'/clickhouse/tables/{uuid}/${isSharded ? '{shard}' : 'all'}'`;
  const replica = isSharded ? "'{replica}'" : "'{shard}-{replica}'";
  const engine = table.engine.replace(/^(\w+)(?:\(([^()]*)\))?/, (_, name: string, args?: string) => {
    const allArgs = args === undefined ? [path, replica] : [path, replica, args];
    return `Replicated${name}(${allArgs.join(', ')})`;
  });
  const { non_replicated_deduplication_window: _, ...settings } = table.settings;
  return {
    ...table,
    name: localName(table.name),
    engine,
    settings: {
      ...{ ...settings, ...REPLICATION_SETTINGS },
      ...(storagePolicy === '' ? {} : { storage_policy: quoted(storagePolicy) }),
    },
    replication: isSharded ? 'shard' : 'all',
  };
}

function isView({ engine }: Table): boolean {
  return engine === 'View';
}

/** Returns the views that read a sharded table, directly or through another view. */
function namesOfViewsOfShards(views: readonly Table[], from: string): string[] {
  const found = new Set<string>();
  const readsShards = ({ select }: Table): boolean =>
    [...select.matchAll(QUALIFIED_NAME)].some(
      ([, database, name = '']) => database === from && (SHARDED.has(name) || found.has(name)),
    );
  for (;;) {
    const more = views.filter((view) => !found.has(view.name) && readsShards(view));
    if (more.length === 0) return [...found];
    for (const { name } of more) found.add(name);
  }
}

/** Matches `database.table` with the table's alias, or another qualified name, in a query that ClickHouse has formatted. */
const QUALIFIED_NAME = /\b(\w+)\.(\w+)( AS \w+)?/g;

function localSelect(
  select: string,
  viewsOfShards: ReadonlySet<string>,
  { from, database }: ClusterNames,
): string {
  return select.replace(QUALIFIED_NAME, (text, qualifier: string, name: string, alias?: string) => {
    if (qualifier !== from) return text;
    const local = viewsOfShards.has(name) ? `${name}${SHARD}` : localName(name);
    // The rest of the query uses the original name of the table.
    return `${database}.${local}${alias ?? (local === name ? '' : ` AS ${name}`)}`;
  });
}

/** Tables that queries read with `FINAL`. ClickHouse does not apply the `FINAL` of a query to the tables of a view. */
const FINAL: ReadonlySet<string> = new Set(['erased_events']);

function rows({ name, columns }: Table, { database }: ClusterNames): string {
  const from = `${database}.${localName(name)}${FINAL.has(name) ? ' FINAL' : ''}`;
  return `SELECT ${columns.map((column) => column.name).join(', ')} FROM ${from}`;
}

function shardView({ name, comment, columns }: Table, select: string): ClusterTable {
  return {
    name: `${name}${SHARD}`,
    engine: 'View',
    settings: {},
    select,
    comment,
    columns: columns.map(({ name: column, type, comment: text }) => ({
      ...PLAIN,
      name: column,
      type,
      comment: text,
    })),
    indices: [],
    replication: 'node',
  };
}

/**
 * Sharding key that fails for every row, so that nobody can insert through a Distributed table. A table without a sharding key
 * would accept an insert if its sender sets `insert_distributed_one_random_shard`. ClickHouse rejects an insert with
 * `insert_shard_id` in any case, because the Distributed table reads from a view.
 */
const NO_INSERTS = "throwIf(rand() >= 0, 'this table is read-only')";

function distributedTable(view: ClusterTable, { cluster, database }: ClusterNames): ClusterTable {
  return {
    ...view,
    name: view.name.slice(0, -SHARD.length),
    engine: `Distributed('${cluster}', '${database}', '${view.name}', ${NO_INSERTS})`,
    select: '',
  };
}

/** Returns the statement that creates a table on all nodes of the cluster, with the same UUID on all nodes. */
export function createOnCluster(table: ClusterTable, { database, cluster }: ClusterNames): string {
  const target = `${database}.${table.name} ON CLUSTER \`${cluster}\``;
  return `CREATE TABLE IF NOT EXISTS ${target} ${body(table)}`;
}

/** Returns the statement that creates a table again on all nodes of the cluster, with a new UUID and without rows. */
export function replaceOnCluster(table: ClusterTable, names: ClusterNames): string {
  return createOnCluster(table, names).replace('CREATE TABLE IF NOT EXISTS', 'CREATE OR REPLACE TABLE');
}

/** Returns the statement that creates a view or a Distributed table on one node. */
export function createOnNode(table: ClusterTable, { database }: ClusterNames): string {
  const kind = isView(table) ? 'VIEW' : 'TABLE';
  return `CREATE OR REPLACE ${kind} ${database}.${table.name} ${body(table)}`;
}

function body(table: ClusterTable): string {
  const indices = table.indices.map((index) => `INDEX ${indexText(index)}`);
  const entries = [...table.columns.map(columnText), ...indices].join(', ');
  if (isView(table)) return `(${entries}) AS ${table.select} COMMENT ${quoted(table.comment)}`;
  const settings = Object.entries(table.settings).map(([name, value]) => `${name} = ${value}`);
  const tail = settings.length === 0 ? '' : ` SETTINGS ${settings.join(', ')}`;
  return `(${entries}) ENGINE = ${table.engine}${tail} COMMENT ${quoted(table.comment)}`;
}

function columnText({ name, type, defaultKind, defaultExpression, comment, codec }: Column): string {
  const expression = defaultKind === '' ? '' : ` ${defaultKind} ${defaultExpression}`;
  const text = comment === '' ? '' : ` COMMENT ${quoted(comment)}`;
  return `\`${name}\` ${type}${expression}${text}${codec === '' ? '' : ` ${codec}`}`;
}

function indexText({ name, expression, type, granularity }: SkippingIndex): string {
  return `${name} ${expression} TYPE ${type} GRANULARITY ${granularity}`;
}

export function quoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

export interface Repairs {
  /** Changes that ClickHouse replicates: sent to one replica. */
  readonly replicated: readonly string[];
  /** Changes that ClickHouse does not replicate: sent to each node. */
  readonly local: readonly string[];
}

/**
 * Returns the statements that change a table of a node into the expected table. The statements never remove a column or an
 * index.
 * @param stored undefined if the node has no such view or Distributed table
 * @throws Unavailable if a replicated table is missing.
 * @throws StartRefused if no statement can change the table, for example because its sorting key differs.
 */
export function repairsOf(expected: ClusterTable, stored: Table | undefined, names: ClusterNames): Repairs {
  if (expected.replication === 'node') {
    const isSame = stored !== undefined && isEqual(expected, stored);
    return { replicated: [], local: isSame ? [] : [createOnNode(expected, names)] };
  }
  if (stored === undefined) throw new Unavailable(`ClickHouse: the table ${expected.name} is missing`);
  if (stored.engine !== expected.engine)
    throw new StartRefused(
      `ClickHouse: the table ${expected.name} has the engine ${stored.engine} instead of ${expected.engine}`,
    );
  const alter = (changes: readonly string[]): string[] =>
    changes.length === 0 ? [] : [`ALTER TABLE ${names.database}.${expected.name} ${changes.join(', ')}`];
  const settings = Object.entries(expected.settings)
    .filter(([name, value]) => stored.settings[name] !== value)
    .map(([name, value]) => `${name} = ${value}`);
  return {
    replicated: alter([...columnChanges(expected, stored), ...indexChanges(expected, stored)]),
    // ClickHouse rejects a statement that changes settings and comments together.
    local: [
      ...alter(commentChanges(expected, stored)),
      ...alter(settings.length === 0 ? [] : [`MODIFY SETTING ${settings.join(', ')}`]),
      ...alter(expected.comment === stored.comment ? [] : [`MODIFY COMMENT ${quoted(expected.comment)}`]),
    ],
  };
}

function columnChanges(expected: Table, stored: Table): string[] {
  return expected.columns.flatMap((column, position) => {
    const current = stored.columns.find(({ name }) => name === column.name);
    const previous = expected.columns[position - 1];
    const place = previous === undefined ? 'FIRST' : `AFTER \`${previous.name}\``;
    if (current === undefined) return [`ADD COLUMN IF NOT EXISTS ${columnText(column)} ${place}`];
    return withoutComment(current) === withoutComment(column) ? [] : [`MODIFY COLUMN ${columnText(column)}`];
  });
}

function withoutComment(column: Column): string {
  return columnText({ ...column, comment: '' });
}

/** ClickHouse does not replicate a change of comments only (tested with 26.7). */
function commentChanges(expected: Table, stored: Table): string[] {
  return expected.columns
    .filter(({ name, comment }) =>
      stored.columns.some((current) => current.name === name && current.comment !== comment),
    )
    .map(({ name, comment }) => `COMMENT COLUMN \`${name}\` ${quoted(comment)}`);
}

function indexChanges(expected: Table, stored: Table): string[] {
  const missing = expected.indices.filter(({ name }) => !stored.indices.some((index) => index.name === name));
  return missing.map((index) => `ADD INDEX IF NOT EXISTS ${indexText(index)}`);
}

function isEqual(expected: Table, stored: Table): boolean {
  const described = ({ engine, select, comment, columns }: Table): string =>
    JSON.stringify([engine, select, comment, columns.map(columnText)]);
  return described(expected) === described(stored);
}
