/** A table of `deploy/clickhouse` without its rows: decodes inserts, applies mutations, and evaluates `FINAL`. */
import type { Insert } from '@questlog/runtime/clickhouse/store';
import { type Compiled, compile, keyOf, type Row, type Scope } from './expressions.ts';
import { parseQuery, type Query, type Statement } from './parseSql.ts';
import { readRows } from './readRows.ts';
import { type Column, readSchema, type Schema, type TableSchema } from './schema.ts';
import { type Catalog, runQuery } from './select.ts';

/** Schema, read once, because migrations do not change during a run. */
let schema: Schema | undefined;
const queries = new Map<string, Query>();

export function schemaOfMigrations(): Schema {
  schema ??= readSchema();
  return schema;
}

export function viewNamed(name: string): Query | undefined {
  return schemaOfMigrations().views.get(name)?.query();
}

export function queryOf(sql: string): Query {
  let query = queries.get(sql);
  if (query === undefined) {
    query = parseQuery(sql);
    queries.set(sql, query);
  }
  return query;
}

export class TableDefinition {
  readonly schema: TableSchema;
  readonly #keys: readonly Compiled[];
  /** Rows for subqueries in expressions. */
  readonly #catalog: Catalog;

  constructor(tableSchema: TableSchema, catalog: Catalog) {
    this.schema = tableSchema;
    this.#keys = tableSchema.sortedBy.map(compile);
    this.#catalog = catalog;
  }

  rowsOfInsert({ columns, rows }: Pick<Insert, 'columns' | 'rows'>): Row[] {
    const types = columns.map((column) => this.#column(column).type);
    return readRows(rows, types).map((values) =>
      this.#row(Object.fromEntries(columns.map((column, i) => [column, values[i]]))),
    );
  }

  /** Returns the rows of an `INSERT … SELECT`. */
  rowsOfSelect({ columns, query }: Extract<Statement, { kind: 'insert' }>, catalog: Catalog): Row[] {
    const names = columns ?? this.schema.columns.filter(isStored).map(({ name }) => name);
    return runQuery(query, catalog, {}).map((row) => {
      const values = columns === undefined ? names.map((name) => row[name]) : Object.values(row);
      return this.#row(Object.fromEntries(names.map((name, i) => [name, values[i]])));
    });
  }

  /** Returns a function that applies a mutation to rows. */
  mutation(statement: Exclude<Statement, { kind: 'insert' }>): (rows: readonly Row[]) => Row[] {
    const where = compile(statement.where);
    const scope = this.#scope({});
    const isChanged = (row: Row): boolean => Boolean(where({ ...scope, row }));
    if (statement.kind === 'delete') return (rows) => rows.filter((row) => !isChanged(row));
    const to = compile(statement.to);
    const { column } = statement;
    return (rows) => rows.map((row) => (isChanged(row) ? { ...row, [column]: to(this.#scope(row)) } : row));
  }

  /** Returns the rows that a query with `FINAL` reads. */
  latest(rows: readonly Row[]): Row[] {
    const { version } = this.schema;
    const last = new Map<unknown, Row>();
    for (const row of rows) {
      const scope = this.#scope(row);
      const key = keyOf(this.#keys.map((value) => value(scope)));
      const held = last.get(key);
      if (held === undefined || version === undefined || Number(row[version]) >= Number(held[version])) {
        last.set(key, row);
      }
    }
    return [...last.values()];
  }

  #row(values: Row): Row {
    const row: Record<string, unknown> = {};
    for (const { name, byDefault } of this.schema.columns) row[name] = values[name] ?? byDefault;
    for (const { name, materialized } of this.schema.columns) {
      if (materialized !== undefined) row[name] = compile(materialized)(this.#scope(row));
    }
    return row;
  }

  #scope(row: Row): Scope {
    const valuesOf = (query: Query) => runQuery(query, this.#catalog, {}).map(tupleOf);
    return { row, aliases: new Map(), run: { params: {}, sets: new Map(), valuesOf } };
  }

  #column(name: string): Column {
    const column = this.schema.columns.find((one) => one.name === name);
    if (column === undefined) throw new Error(`the table has no column ${name}`);
    return column;
  }
}

function isStored({ materialized }: Column): boolean {
  return materialized === undefined;
}

function tupleOf(row: Row): unknown {
  const values = Object.values(row);
  return values.length === 1 ? values[0] : values;
}
