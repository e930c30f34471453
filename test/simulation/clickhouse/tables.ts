/** Tables of a simulated ClickHouse server: inserts with deduplication tokens, merges, mutations, and `FINAL`. */
import type { Insert } from '@questlog/runtime/clickhouse/store';
import type { Row } from './expressions.ts';
import { parseStatement, type Query } from './parseSql.ts';
import { type Catalog, runQuery } from './select.ts';
import { queryOf, schemaOfMigrations, TableDefinition, viewNamed } from './tableDefinition.ts';

/** Tables that the tests read and change without faults. */
export interface StoredTables {
  query(sql: string, params?: Readonly<Record<string, unknown>>): Row[];
  command(sql: string): void;
  rowsOf(table: string, isFinal: boolean): readonly Row[];
  /** Merges a table; ClickHouse does so at any time. */
  merge(table: string): void;
  /** UUID of every table. Each restore gives the tables another UUID. */
  readonly uuid: string;
  /** Copies all rows. Returns a function that restores the copy. */
  backup(): () => void;
}

interface Table {
  readonly definition: TableDefinition;
  rows: Row[];
  readonly tokens: Set<string>;
}

export class Tables implements Catalog, StoredTables {
  #restores = 0;
  readonly #tables = new Map<string, Table>();

  constructor() {
    for (const [name, table] of schemaOfMigrations().tables) {
      this.#tables.set(name, {
        definition: new TableDefinition(table, this),
        rows: [],
        tokens: new Set(),
      });
    }
  }

  query(sql: string, params: Readonly<Record<string, unknown>> = {}): Row[] {
    return runQuery(queryOf(sql), this, params);
  }

  /** @param isBurnt true if ClickHouse stops after it logged the token and before it stored the rows */
  insert(insert: Insert, isBurnt = false): void {
    const { definition, tokens, rows } = this.#table(insert.table);
    const { deduplicationToken: token } = insert;
    if (token !== undefined && definition.schema.deduplicates) {
      if (tokens.has(token)) return;
      tokens.add(token);
    }
    if (!isBurnt) rows.push(...definition.rowsOfInsert(insert));
  }

  command(sql: string): void {
    const statement = parseStatement(sql);
    const table = this.#table(statement.table);
    if (statement.kind === 'insert') table.rows.push(...table.definition.rowsOfSelect(statement, this));
    else table.rows = table.definition.mutation(statement)(table.rows);
  }

  merge(name: string): void {
    const table = this.#table(name);
    table.rows = [...this.rowsOf(name, true)];
  }

  get uuid(): string {
    return uuidAfter(this.#restores);
  }

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
    const { rows, definition } = this.#table(name);
    return isFinal ? definition.latest(rows) : rows;
  }

  viewOf(name: string): Query | undefined {
    return viewNamed(name);
  }

  #table(name: string): Table {
    const table = this.#tables.get(name);
    if (table === undefined) throw new Error(`the simulated ClickHouse has no table ${name}`);
    return table;
  }
}

/** Returns the UUID of every table after a number of restores. */
export function uuidAfter(restores: number): string {
  return `00000000-0000-4000-8000-${String(restores).padStart(12, '0')}`;
}
