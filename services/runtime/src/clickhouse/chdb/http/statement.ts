/** Classifies statements for the HTTP interface. Uses the normalized text that the engine's own parser returns. */

import { maskQuoted } from '../engine/sqlText.ts';
import { ClickHouseException, exceptions } from './httpErrors.ts';
import { sqlOf } from './requestBody.ts';

type Normalize = (statement: string) => Promise<string>;

export interface Statement {
  /** A `select` can return many rows. A `report` returns a few rows (SHOW, DESCRIBE, …). Every other statement is a `write`. */
  kind: 'select' | 'report' | 'write';
  beforeFormat: string;
  format: string | undefined;
  /** SETTINGS clause that follows the FORMAT clause. */
  settings: string;
}

/** Classifies a normalized statement. @throws ClickHouseException if ClickHouse would reject the statement over HTTP. */
export function readStatement(normalized: string): Statement {
  const text = maskQuoted(normalized);
  const reason = UNSUPPORTED_STATEMENTS.find(([pattern]) => pattern.test(text))?.[1];
  if (reason !== undefined) throw exceptions.notImplemented(reason);
  const verb = /^\(*(\w+)/.exec(text)?.[1] ?? '';
  const kind = SELECTS.has(verb) ? 'select' : REPORTS.has(verb) ? 'report' : 'write';
  const clauses = /^(?<front>.*) FORMAT (?<name>\w+|`_+`)(?: SETTINGS .*)?$/s.exec(text)?.groups;
  const { front: beforeFormat = text, name } = clauses ?? {};
  const nameStart = beforeFormat.length + ' FORMAT '.length;
  const nameEnd = nameStart + (name ?? '').length;
  return {
    kind,
    beforeFormat: normalized.slice(0, beforeFormat.length),
    format: name && normalized.slice(nameStart, nameEnd).replaceAll('`', ''),
    settings: name === undefined ? '' : normalized.slice(nameEnd),
  };
}

export interface DataInsert {
  /** Start of the statement, for example `INSERT INTO t (a, b)`. */
  target: string;
  /** Part of the INSERT statement after the column names and before the rows, for example ` SETTINGS a = 1 FORMAT CSV`. */
  clauses: string;
  dataStart: number;
}

/** Finds an INSERT statement at the start of a body. @throws ClickHouseException for text between the format and the rows. */
export async function findDataInsert(start: Buffer, normalized: Normalize): Promise<DataInsert | undefined> {
  const text = start.toString('latin1');
  if (!INSERT.test(text)) return undefined;
  for (const { 0: word, 1: name = '', index } of text.matchAll(/\b(?:FORMAT(?=(\s+\w+))|VALUES\b)/gi)) {
    const end = index + word.length + name.length;
    const insert = await normalized(`${sqlOf(start.subarray(0, end))}\n)]`).catch(emptyOnSyntaxError);
    const target = /^(.*?)(?: SETTINGS \w+ = .*)? FORMAT \w+$/s.exec(maskQuoted(insert))?.[1]?.length;
    if (target === undefined) continue;
    const dataStart = name === '' ? end : dataStartAt(text, end);
    return { target: insert.slice(0, target), clauses: insert.slice(target), dataStart };
  }
  return undefined;
}

function emptyOnSyntaxError(error: unknown): string {
  if (error instanceof ClickHouseException && error.type === 'SYNTAX_ERROR') return '';
  throw error;
}

/** Returns the start index of the rows. ClickHouse skips blanks and one line feed before the rows (`ParserInsertQuery`). */
function dataStartAt(text: string, nameEnd: number): number {
  const gap = /(?<more>[ \t\f]*;|\s+SETTINGS\s+\w+\s*=)?[ \t\f]*\r?\n?/iy;
  gap.lastIndex = nameEnd;
  if (gap.exec(text)?.groups?.['more'] !== undefined) {
    throw exceptions.syntax(
      "Data must directly follow the format's name: no ';' between them, and SETTINGS before FORMAT.",
    );
  }
  return gap.lastIndex;
}

// This regular expression can match an SQL comment in only one way. If it could match in two ways, each dash would double the
// matching time.
const INSERT = /^(?:\s|(?:--|#[ !])[^\n]*(?:\n|$)|\/\*(?:[^*]|\*(?!\/))*\*\/)*INSERT\b/i;
const SELECTS = new Set(['SELECT', 'WITH']);
const REPORTS = new Set(['SHOW', 'DESCRIBE', 'EXISTS', 'EXPLAIN', 'CHECK', 'KILL']);

const UNSUPPORTED_STATEMENTS: readonly (readonly [RegExp, string])[] = [
  [/ INTO OUTFILE '/, 'INTO OUTFILE is not allowed over HTTP.'],
  [/^INSERT .* FROM INFILE '/s, 'INFILE is read by clients, not by the server.'],
  // Rejects an INSERT if the start of its rows was not found. Otherwise, the rows would run as SQL.
  [
    /^INSERT (?!.*[ (](?:SELECT|WITH) )/s,
    'The data of an INSERT must follow VALUES, or FORMAT and one name.',
  ],
  // Rejects statements that change the state of a session, because the embedded ClickHouse has no sessions.
  [
    /^(?:USE|SET|(?:CREATE |CREATE OR REPLACE |REPLACE )TEMPORARY) /,
    'The embedded ClickHouse has no sessions: pass settings and the database as URL parameters, and use a table instead of a temporary one.',
  ],
];
