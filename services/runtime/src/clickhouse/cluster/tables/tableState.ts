/** Reads the tables and views of a database, as ClickHouse describes them in its system tables. */
import type { Store } from '../../store.ts';

export interface Column {
  readonly name: string;
  readonly type: string;
  /** DEFAULT, MATERIALIZED, or ALIAS. Empty if the column has no expression. */
  readonly defaultKind: string;
  readonly defaultExpression: string;
  /** For example `CODEC(ZSTD(1))`. Empty if the column has the default codec. */
  readonly codec: string;
  readonly comment: string;
}

export interface SkippingIndex {
  readonly name: string;
  readonly type: string;
  readonly expression: string;
  readonly granularity: string;
}

export interface Table {
  readonly name: string;
  /** `View`, or the engine with its arguments, keys, and TTL, but without settings and without a TTL that moves parts. */
  readonly engine: string;
  readonly settings: Readonly<Record<string, string>>;
  /** Query of a view. Empty for a table. */
  readonly select: string;
  readonly comment: string;
  readonly columns: readonly Column[];
  readonly indices: readonly SkippingIndex[];
}

export interface StoredTable extends Table {
  readonly uuid: string;
  /** Statement that creates the same table with the same UUID. */
  readonly definition: string;
}

type Row<T> = T & { readonly table: string };

export async function readTables(store: Pick<Store, 'query'>, database: string): Promise<StoredTable[]> {
  const [tables, columns, indices] = await Promise.all([
    store.query<Omit<StoredTable, 'settings' | 'columns' | 'indices'>>(
      `SELECT name, uuid, if(engine = 'View', engine, engine_full) AS engine, as_select AS select, comment,
         create_table_query AS definition
       FROM system.tables WHERE database = {database:String} ORDER BY name`,
      { database },
      { show_table_uuid_in_table_create_query_if_not_nil: 1 },
    ),
    store.query<Row<Column>>(
      `SELECT table, name, type, default_kind AS defaultKind, default_expression AS defaultExpression,
         compression_codec AS codec, comment
       FROM system.columns WHERE database = {database:String} ORDER BY table, position`,
      { database },
    ),
    store.query<Row<SkippingIndex>>(
      `SELECT table, name, type_full AS type, expr AS expression, toString(granularity) AS granularity
       FROM system.data_skipping_indices WHERE database = {database:String} ORDER BY table, name`,
      { database },
    ),
  ]);
  return tables.map(({ engine: engineAndSettings, ...table }) => {
    const [engine = '', settings = ''] = engineAndSettings.split(' SETTINGS ');
    return {
      ...table,
      engine: withoutMoveTtl(engine),
      settings: settingsIn(settings),
      columns: rowsOf(columns, table.name),
      indices: rowsOf(indices, table.name),
    };
  });
}

/** Removes a TTL that moves old parts to another volume. An operator adds such a TTL to the table `events`. */
function withoutMoveTtl(engine: string): string {
  const at = engine.lastIndexOf(' TTL ');
  return at >= 0 && MOVE_TTL.test(engine.slice(at)) ? engine.slice(0, at) : engine;
}

const MOVE_TTL = /^ TTL [^']* TO (?:VOLUME|DISK) '[^']*'$/;

function settingsIn(text: string): Record<string, string> {
  const pairs = text.split(', ').filter((pair) => pair !== '');
  return Object.fromEntries(pairs.sort().map((pair) => pair.split(' = ') as [string, string]));
}

function rowsOf<T>(rows: readonly Row<T>[], name: string): T[] {
  return rows.filter(({ table }) => table === name).map(({ table: _, ...row }) => row as T);
}
