/** Says what a statement is, as far as the HTTP front must know, from what the engine's own parser makes of it. */

import { maskQuoted } from '../engine/sqlText.ts';
import { ClickHouseException, exceptions } from './httpErrors.ts';
import { sqlOf } from './requestBody.ts';

type Normalize = (statement: string) => Promise<string>;

export interface Statement {
  /** `select`: rows, perhaps many; `report`: some rows (SHOW, DESCRIBE, …); `write`: everything else. */
  kind: 'select' | 'report' | 'write';
  /** All before its own FORMAT clause. */
  beforeFormat: string;
  format: string | undefined;
  /** Its SETTINGS behind FORMAT. */
  settings: string;
}

/**
 * @param normalized as `Engine.print` gives it
 * @throws ClickHouseException for what a ClickHouse server refuses over HTTP, and for what this one does not do
 */
export function readStatement(normalized: string): Statement {
  const text = maskQuoted(normalized);
  const reason = UNSUPPORTED_STATEMENTS.find(([pattern]) => pattern.test(text))?.[1];
  if (reason !== undefined) throw exceptions.notImplemented(reason);
  const verb = /^\(*(\w+)/.exec(text)?.[1] ?? '';
  const kind = SELECTS.has(verb) ? 'select' : REPORTS.has(verb) ? 'report' : 'write';
  // The names of a few formats are keywords, and in backquotes.
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

/** An INSERT whose rows follow its text. */
export interface DataInsert {
  /** `INSERT INTO t (a, b)` */
  target: string;
  /** ` SETTINGS a = 1 FORMAT CSV` */
  clauses: string;
  /** Where the rows begin. */
  dataStart: number;
}

/**
 * Finds an INSERT with data at the beginning of a body. Its text ends with VALUES or a format's name, so the engine is
 * asked at each of these words whether the INSERT is whole: then anything may follow, brackets that nothing opened too.
 * @throws ClickHouseException for text between a format's name and the data
 */
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

/** Behind a format's name, blanks and one line feed (`ParserInsertQuery`). Data may begin with any byte. */
function dataStartAt(text: string, nameEnd: number): number {
  const gap = /(?<more>[ \t\f]*;|\s+SETTINGS\s+\w+\s*=)?[ \t\f]*\r?\n?/iy;
  gap.lastIndex = nameEnd;
  if (gap.exec(text)?.groups?.['more'] !== undefined) {
    throw exceptions.syntax(
      "Data follow the format's name: no ';' stands before them, and SETTINGS before FORMAT.",
    );
  }
  return gap.lastIndex;
}

// A comment ends in one way only: with two, as many dashes as a client likes took a time that doubled with each.
const INSERT = /^(?:\s|(?:--|#[ !])[^\n]*(?:\n|$)|\/\*(?:[^*]|\*(?!\/))*\*\/)*INSERT\b/i;
const SELECTS = new Set(['SELECT', 'WITH']);
const REPORTS = new Set(['SHOW', 'DESCRIBE', 'EXISTS', 'EXPLAIN', 'CHECK', 'KILL']);

const UNSUPPORTED_STATEMENTS: readonly (readonly [RegExp, string])[] = [
  [/ INTO OUTFILE '/, 'INTO OUTFILE is not allowed over HTTP.'],
  [/^INSERT .* FROM INFILE '/s, 'INFILE is read by clients, not by the server.'],
  // Its data were not found: better refused than taken for text.
  [/^INSERT (?!.*[ (](?:SELECT|WITH) )/s, 'Data of an INSERT follow VALUES, or FORMAT and one name.'],
  // What would last until the next request of a session, which this server does not keep: better refused than lost.
  [
    /^(?:USE|SET|(?:CREATE |CREATE OR REPLACE |REPLACE )TEMPORARY) /,
    'The embedded ClickHouse keeps nothing from one request to the next: pass settings and the database as URL parameters, and use a table instead of a temporary one.',
  ],
];
