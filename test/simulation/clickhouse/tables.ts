/** Tables of a simulated ClickHouse: inserts with deduplication tokens, merges, mutations, and `FINAL`. */
import type { Insert } from '@questlog/runtime/clickhouse/store';
import { type Compiled, compile, keyOf, type Row, type Scope } from './expressions.ts';
import { parseQuery, parseStatement, type Query } from './parseSql.ts';
import { readRows } from './readRows.ts';
import { type Column, readSchema, type Schema, type TableSchema } from './schema.ts';
import { type Catalog, runQuery } from './select.ts';

interface Table {
  readonly schema: TableSchema;
  readonly keys: readonly Compiled[];
  rows: Row[];
  readonly tokens: Set<string>;
}

/** Schema, read once, because migrations do not change during a run. */
let schema: Schema | undefined;
const queries = new Map<string, Query>();

export class Tables implements Catalog {
  #restores = 0;
  readonly #tables = new Map<string, Table>();

  constructor() {
    schema ??= readSchema();
    for (const [name, table] of schema.tables) {
      this.#tables.set(name, {
        schema: table,
        keys: table.sortedBy.map(compile),
        rows: [],
        tokens: new Set(),
      });
    }
  }

  query(sql: string, params: Readonly<Record<string, unknown>> = {}): Row[] {
    let query = queries.get(sql);
    if (query === undefined) {
      query = parseQuery(sql);
      queries.set(sql, query);
    }
    return runQuery(query, this, params);
  }

  /** @param isBurnt true if ClickHouse stops after it logged the token and before it stored the rows */
  insert({ table: name, columns, rows, deduplicationToken: token }: Insert, isBurnt = false): void {
    const table = this.#table(name);
    if (token !== undefined && table.schema.deduplicates) {
      if (table.tokens.has(token)) return;
      table.tokens.add(token);
    }
    if (isBurnt) return;
    const types = columns.map((column) => this.#column(name, column).type);
    for (const values of readRows(rows, types)) {
      this.#put(table, Object.fromEntries(columns.map((column, i) => [column, values[i]])));
    }
  }

  command(sql: string): void {
    const statement = parseStatement(sql);
    const table = this.#table(statement.table);
    if (statement.kind === 'insert') {
      const names = statement.columns ?? table.schema.columns.filter(isStored).map(({ name }) => name);
      for (const row of runQuery(statement.query, this, {})) {
        const values = statement.columns === undefined ? names.map((name) => row[name]) : Object.values(row);
        this.#put(table, Object.fromEntries(names.map((name, i) => [name, values[i]])));
      }
      return;
    }
    const where = this.#condition(compile(statement.where));
    if (statement.kind === 'delete') table.rows = table.rows.filter((row) => !where(row));
    else {
      const to = compile(statement.to);
      const { column } = statement;
      table.rows = table.rows.map((row) => (where(row) ? { ...row, [column]: to(this.#scope(row)) } : row));
    }
  }

  /** Merges a table; ClickHouse does so at any time. */
  merge(name: string): void {
    const table = this.#table(name);
    table.rows = [...this.rowsOf(name, true)];
  }

  /** UUID of every table. Each restore gives the tables another UUID. */
  get uuid(): string {
    return `00000000-0000-4000-8000-${String(this.#restores).padStart(12, '0')}`;
  }

  /** Copies all rows. Returns a function that restores the copy. */
  backup(): () => void {
    const copies = [...this.#tables.values()].map((table) => ({ table, rows: [...table.rows] }));
    return () => {
      this.#restores++;
      for (const { table, rows } of copies) {
        table.rows = [...rows];
        table.tokens.clear();
      }
    };
  }

  names(): string[] {
    return [...this.#tables.keys()];
  }

  rowsOf(name: string, isFinal: boolean): readonly Row[] {
    const {
      rows,
      keys,
      schema: { version },
    } = this.#table(name);
    if (!isFinal) return rows;
    const last = new Map<unknown, Row>();
    for (const row of rows) {
      const scope = this.#scope(row);
      const key = keyOf(keys.map((value) => value(scope)));
      const held = last.get(key);
      if (held === undefined || version === undefined || Number(row[version]) >= Number(held[version])) {
        last.set(key, row);
      }
    }
    return [...last.values()];
  }

  viewOf(name: string): Query | undefined {
    return schema?.views.get(name)?.();
  }

  #put(table: Table, values: Row): void {
    const row: Record<string, unknown> = {};
    for (const { name, byDefault } of table.schema.columns) row[name] = values[name] ?? byDefault;
    for (const { name, materialized } of table.schema.columns) {
      if (materialized !== undefined) row[name] = compile(materialized)(this.#scope(row));
    }
    table.rows.push(row);
  }

  #condition(where: Compiled): (row: Row) => boolean {
    const scope = this.#scope({});
    return (row) => Boolean(where({ ...scope, row }));
  }

  #scope(row: Row): Scope {
    const valuesOf = (query: Query) => runQuery(query, this, {}).map(tupleOf);
    return { row, aliases: new Map(), run: { params: {}, sets: new Map(), valuesOf } };
  }

  #table(name: string): Table {
    const table = this.#tables.get(name);
    if (table === undefined) throw new Error(`the simulated ClickHouse has no table ${name}`);
    return table;
  }

  #column(table: string, name: string): Column {
    const column = this.#table(table).schema.columns.find((one) => one.name === name);
    if (column === undefined) throw new Error(`${table} has no column ${name}`);
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
