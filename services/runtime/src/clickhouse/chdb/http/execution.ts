/** Runs a query that has been read: a SELECT into a file, an INSERT's data out of one, everything else as it is. */

import type { Admission } from '../engine/admission.ts';
import type { Engine } from '../engine/engine.ts';
import type { InsertSpool } from '../engine/insertSpool.ts';
import { insertSettings, readerSettings, statementSettings } from '../engine/querySettings.ts';
import type { ResultBody, ResultFiles } from '../engine/resultFile.ts';
import { sqlString } from '../engine/sqlText.ts';
import { ClickHouseException, exceptions } from './httpErrors.ts';
import { type InsertQuery, type PlainQuery, sqlOf } from './requestBody.ts';
import type { Access, RequestHead } from './requestParsing.ts';

export interface ExecutionDeps {
  engine: Engine;
  admission: Readonly<Record<Access, Admission>>;
  spool: InsertSpool;
  results: ResultFiles;
}

export interface Answer {
  body: ResultBody;
  /** Undefined for a statement that has no rows to answer with. */
  format: string | undefined;
  summary: Summary;
}

export interface Summary {
  readRows: number;
  readBytes: number;
  writtenRows: number;
  writtenBytes: number;
  resultRows: number;
  resultBytes: number;
  elapsedS: number;
}

/** @throws ClickHouseException */
export function execute(
  deps: ExecutionDeps,
  head: RequestHead,
  query: PlainQuery | InsertQuery,
  signal: AbortSignal,
): Promise<Answer> {
  if (head.access === 'reader' && ('insert' in query || query.statement.kind === 'write')) {
    throw exceptions.readonly(`${head.access}: Cannot execute query in readonly mode.`);
  }
  if ('insert' in query) return insertData(deps, head, query, signal);
  if (query.statement.kind === 'write') return runWrite(deps, head, query, signal);
  return runRead(deps, head, query, signal);
}

async function insertData(
  deps: ExecutionDeps,
  head: RequestHead,
  query: InsertQuery,
  signal: AbortSignal,
): Promise<Answer> {
  const { settingsText } = query;
  return deps.spool.withFile(query.data, async (path, bytes) => {
    const settings = withParameters(head, insertSettings(head.settings, settingsText ?? '', bytes));
    const source = `FROM INFILE ${sqlString(path)} COMPRESSION 'none' FORMAT ${query.insert.format}`;
    const sql = `${query.target} ${source}`;
    const leave = await deps.admission[head.access].enter(signal);
    const request = { sql, database: head.database, settings, settingsText, signal };
    return written(await deps.engine.write(request).finally(leave));
  });
}

async function runWrite(
  deps: ExecutionDeps,
  head: RequestHead,
  query: PlainQuery,
  signal: AbortSignal,
): Promise<Answer> {
  const sql = sqlOf(query.text);
  refuseSessionState(sql);
  const settings = withParameters(head, statementSettings(head.settings, sql));
  const leave = await deps.admission[head.access].enter(signal);
  const request = { sql, database: head.database, settings, settingsText: undefined, signal };
  return written(await deps.engine.write(request).finally(leave));
}

async function runRead(
  deps: ExecutionDeps,
  head: RequestHead,
  query: PlainQuery,
  signal: AbortSignal,
): Promise<Answer> {
  const format = query.statement.format?.name ?? head.defaultFormat;
  if (!/^\w+$/.test(format)) throw new ClickHouseException(73, 'UNKNOWN_FORMAT', `Unknown format ${format}`);
  const isReader = head.access === 'reader';
  const ours = isReader ? readerSettings() : statementSettings(head.settings, '');
  const settings = withParameters(head, ours);
  const request = { database: head.database, settings, settingsText: undefined, format };
  const leave = await deps.admission[head.access].enter(signal);
  const collected = await deps.results
    .collect(signal, (path, signalOfFile) => {
      const isSelect = query.statement.kind === 'select';
      const sql = isSelect ? intoFile(query, path, format) : sqlOf(query.text);
      const asked = sqlOf(query.text);
      const reader = { settings: head.settings, asked, resultFile: isSelect ? path : undefined };
      return deps.engine.query({ ...request, sql, signal: signalOfFile, ...(isReader ? { reader } : {}) });
    })
    .finally(leave);
  const { outcome } = collected;
  const body = collected.body ?? { content: outcome.bytes, bytes: outcome.bytes.length };
  const summary = {
    ...EMPTY_SUMMARY,
    readRows: outcome.rowsRead,
    readBytes: outcome.bytesRead,
    resultRows: outcome.rowsRead,
    resultBytes: body.bytes,
    elapsedS: outcome.elapsed,
  };
  return { body, format, summary };
}

/** `… INTO OUTFILE 'path' FORMAT name …`, in the place that the grammar has for it: before FORMAT and its SETTINGS. */
function intoFile(query: PlainQuery, path: string, format: string): string {
  const { statement, text } = query;
  const front = sqlOf(text.subarray(0, statement.format?.start ?? statement.end));
  const rest = sqlOf(text.subarray(statement.format?.end ?? statement.end, statement.end));
  return `${front}\nINTO OUTFILE ${sqlString(path)} FORMAT ${format}${rest}`;
}

function written(outcome: { rowsWritten: number; bytesWritten: number; elapsed: number }): Answer {
  const summary = {
    ...EMPTY_SUMMARY,
    readRows: outcome.rowsWritten,
    readBytes: outcome.bytesWritten,
    writtenRows: outcome.rowsWritten,
    writtenBytes: outcome.bytesWritten,
    elapsedS: outcome.elapsed,
  };
  return { body: { content: Buffer.alloc(0), bytes: 0 }, format: undefined, summary };
}

function withParameters(head: RequestHead, settings: ReadonlyMap<string, string>): Map<string, string> {
  return new Map([...settings, ...head.parameters]);
}

/** What would last until the next request of a session, which this server does not keep: better refused than lost. */
function refuseSessionState(sql: string): void {
  if (!/^\s*(?:(?:CREATE|REPLACE)\s+(?:OR\s+REPLACE\s+)?TEMPORARY|USE|SET)\b/i.test(sql)) return;
  throw exceptions.notImplemented(
    'The embedded ClickHouse keeps nothing from one request to the next: pass settings and the database as URL parameters, and use a table instead of a temporary one.',
  );
}

const EMPTY_SUMMARY: Summary = {
  readRows: 0,
  readBytes: 0,
  writtenRows: 0,
  writtenBytes: 0,
  resultRows: 0,
  resultBytes: 0,
  elapsedS: 0,
};
