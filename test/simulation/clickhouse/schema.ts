/** Reads the tables and views of `deploy/clickhouse` from the migrations: columns, sorting keys, and version columns. */
import { readdirSync, readFileSync } from 'node:fs';
import { type Expr, parseQuery, type Query } from './parseSql.ts';

export interface Column {
  readonly name: string;
  readonly type: string;
  /** Expression of a materialized column. Undefined for other columns. */
  readonly materialized: Expr | undefined;
  readonly byDefault: unknown;
}

export interface TableSchema {
  readonly columns: Column[];
  readonly sortedBy: readonly Expr[];
  /** Version column: of the rows with one sorting key, the highest version stays. Undefined if the last inserted row stays. */
  readonly version: string | undefined;
  deduplicates: boolean;
}

export interface View {
  readonly select: string;
  /** Parses the view when it is first queried. */
  query(): Query;
}

export interface Schema {
  readonly tables: ReadonlyMap<string, TableSchema>;
  readonly views: ReadonlyMap<string, View>;
}

const MIGRATIONS = new URL('../../../deploy/clickhouse/', import.meta.url);

export function readSchema(): Schema {
  const tables = new Map<string, TableSchema>();
  const views = new Map<string, View>();
  for (const file of readdirSync(MIGRATIONS).sort()) {
    if (!file.endsWith('.sql')) continue;
    for (const statement of statementsOf(readFileSync(new URL(file, MIGRATIONS), 'utf8'))) {
      const [, view, select = ''] = /^CREATE (?:OR REPLACE )?VIEW (\w+) AS\s+(.*)$/s.exec(statement) ?? [];
      const table = /^CREATE TABLE (?:IF NOT EXISTS )?(\w+)/.exec(statement)?.[1];
      if (view !== undefined) views.set(view, { select, query: once(() => parseQuery(select)) });
      else if (table !== undefined) tables.set(table, tableOf(statement));
      else alter(tables, statement);
    }
  }
  return { tables, views };
}

function statementsOf(text: string): string[] {
  const withoutComments = text.replaceAll(/^\s*--.*$/gm, '');
  return withoutComments
    .split(/;\s*$/m)
    .map((statement) => statement.trim())
    .filter(Boolean);
}

function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}

export function tableOf(statement: string): TableSchema {
  const [body, behind] = parenthesised(statement, statement.indexOf('('));
  const version = /ReplacingMergeTree\((\w+)\)/.exec(behind)?.[1];
  const keys = /ORDER BY (\([^)]*\))/.exec(behind)?.[1] ?? '()';
  const sortedBy = parseQuery(`SELECT tuple${keys}`).selects[0]?.items[0]?.expr;
  return {
    columns: parts(body).flatMap(columnOf),
    sortedBy: sortedBy?.kind === 'call' ? sortedBy.args : [],
    version,
    deduplicates: behind.includes('non_replicated_deduplication_window'),
  };
}

function alter(tables: ReadonlyMap<string, TableSchema>, statement: string): void {
  const [, name = '', changes = ''] = /^ALTER TABLE (\w+)\s+(.*)$/s.exec(statement) ?? [];
  const table = tables.get(name);
  if (table === undefined) return;
  if (changes.includes('non_replicated_deduplication_window')) table.deduplicates = true;
  for (const change of parts(changes)) {
    const added = /^ADD COLUMN IF NOT EXISTS (.*)$/s.exec(change)?.[1];
    if (added !== undefined) table.columns.push(...columnOf(added));
  }
}

/** Returns the text inside the parentheses and the text after them. */
function parenthesised(text: string, start: number): [string, string] {
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    if (text[at] === '(') depth++;
    if (text[at] === ')' && --depth === 0) return [text.slice(start + 1, at), text.slice(at + 1)];
  }
  throw new Error(`a parenthesis without an end: ${text.slice(start, start + 40)}`);
}

/** Splits at commas outside parentheses and quotes. */
function parts(text: string): string[] {
  const found: string[] = [];
  let [depth, from, isQuoted] = [0, 0, false];
  for (const [at, character] of [...text].entries()) {
    if (character === "'") isQuoted = !isQuoted;
    if (isQuoted) continue;
    if (character === '(') depth++;
    if (character === ')') depth--;
    if (character !== ',' || depth > 0) continue;
    found.push(text.slice(from, at).trim());
    from = at + 1;
  }
  return [...found, text.slice(from).trim()];
}

function columnOf(text: string): Column[] {
  const [, name = '', rest = ''] = /^(\w+)\s+(.*)$/s.exec(text) ?? [];
  if (name === 'INDEX') return [];
  const opens = /^\w+\(/.test(rest);
  const type = opens
    ? `${rest.slice(0, rest.indexOf('(') + 1)}${parenthesised(rest, rest.indexOf('('))[0]})`
    : rest;
  const materialized = /MATERIALIZED (.*?)(?: COMMENT '[^']*')?$/s.exec(rest)?.[1];
  return [
    {
      name,
      type: opens ? type : (/^\w+/.exec(rest)?.[0] ?? ''),
      materialized:
        materialized === undefined
          ? undefined
          : parseQuery(`SELECT ${materialized}`).selects[0]?.items[0]?.expr,
      byDefault: /DEFAULT '([^']*)'/.exec(rest)?.[1] ?? (type.includes('Nullable') ? null : ''),
    },
  ];
}
