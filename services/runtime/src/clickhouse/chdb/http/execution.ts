/** Runs a parsed query. A SELECT writes its result to a file, and an INSERT reads its data from a file. */

import type { ByteStream } from '../../../process/inflate.ts';
import { type Admission, createAdmission } from '../engine/admission.ts';
import type { WriteOutcome } from '../engine/chdbAddon.ts';
import type { Engine } from '../engine/engine.ts';
import {
  MAX_INSERT_TEXT_BYTES,
  MAX_NORMALIZED_BYTES,
  MAX_QUERY_TEXT_BYTES,
  MAX_READER_TEXT_BYTES,
} from '../engine/limits.ts';
import {
  insertSettings,
  lowerTimeLimit,
  readerSettings,
  statementSettings,
} from '../engine/querySettings.ts';
import type { RequestFiles, ResultBody } from '../engine/requestFiles.ts';
import { sqlString } from '../engine/sqlText.ts';
import { STUDIO_SETTINGS } from '../engine/studioAccess.ts';
import type { StudioQuota } from '../engine/studioQuota.ts';
import { exceptions } from './httpErrors.ts';
import { checkTypes, needsConversion } from './nativeBlocks.ts';
import { BodyReader, sqlOf } from './requestBody.ts';
import type { Access, RequestHead } from './requestParsing.ts';
import { type DataInsert, findDataInsert, readStatement, type Statement } from './statement.ts';
import { audited, type StudioStatement, type Summary } from './statementAudit.ts';

export interface ExecutionResult {
  body: ResultBody;
  /** Format of the result. Undefined if the statement returns no rows. */
  format: string | undefined;
  /** Settings that were lowered to the limits of readers, for example `max_execution_time=30`. Usually empty. */
  loweredSettings: string;
  summary: Summary;
}

export type ReaderQuery = Pick<RequestHead, 'queryId' | 'studio'>;

export interface Execution {
  engine: Engine;
  admission: Readonly<Record<Access, Admission>>;
  studioQuota: StudioQuota;
  files: RequestFiles;
  /** Queries of readers whose responses are not complete yet. Several queries can have the same id. */
  readers: ReadonlyMap<AbortController, ReaderQuery>;
  head: RequestHead;
  signal: AbortSignal;
  /** Called when a statement of a studio's account has ended. */
  onStudioStatement: (statement: StudioStatement) => void;
}

export function execute(execution: Execution, body: ByteStream): Promise<ExecutionResult> {
  return audited(execution, (note) => executeStatement(execution, body, note));
}

async function executeStatement(
  execution: Execution,
  body: ByteStream,
  note: (normalized: string) => void,
): Promise<ExecutionResult> {
  const { engine, head, signal } = execution;
  const reader = new BodyReader(head.urlQuery, body);
  const normalize = (text: string) => engine.normalize(text, signal);
  if (head.access === 'product') {
    const start = await reader.start(MAX_INSERT_TEXT_BYTES);
    const insert = await findDataInsert(start, (text) => withAdmission(execution, () => normalize(text)));
    if (insert !== undefined) return await insertData(execution, insert, reader.from(insert.dataStart));
  }
  const maxBytes = head.access === 'reader' ? MAX_READER_TEXT_BYTES : MAX_QUERY_TEXT_BYTES;
  const sql = sqlOf(await reader.all(maxBytes));
  const killed = head.access === 'reader' && KILL_BY_ID.exec(sql)?.groups?.['id'];
  if (killed) {
    note(sql.trim());
    return killReader(execution, killed);
  }
  return await withAdmission(execution, async () => {
    head.checkAccount?.();
    const normalized = await normalize(sql);
    note(normalized);
    // ClickHouse's formatter prints the function after `APPLY` without quotes. A reader can therefore choose a function name with
    // which the formatted text is a different statement.
    if (head.access === 'reader' && (await normalize(normalized)) !== normalized)
      throw exceptions.accessDenied(
        'reader: the statement has another meaning after ClickHouse has formatted it.',
      );
    const statement = readStatement(normalized);
    if (statement.kind !== 'write') return await runRead(execution, statement, normalized);
    if (head.access === 'product') return await runWrite(execution, sql);
    throw exceptions.readonly(`${head.access}: Cannot execute query in readonly mode.`);
  });
}

/** Matches the statement that JDBC sends to cancel a query. */
const KILL_BY_ID = /^\s*KILL QUERY WHERE query_id = '(?<id>[^'\\]+)'\s*$/;

/**
 * Cancels the account's queries with this id. Does not wait for a free slot, because the query to cancel can occupy the last
 * slot.
 */
function killReader({ readers, head }: Execution, killed: string): ExecutionResult {
  for (const [query, { queryId, studio }] of readers)
    if (queryId === killed && studio?.username === head.studio?.username) query.abort();
  return emptyResult({});
}

/** Runs the work when a query of the account can start. The account of a studio runs only one query at a time. */
async function withAdmission<T>(
  { admission, studioQuota, head: { access, studio }, signal }: Execution,
  work: () => Promise<T>,
): Promise<T> {
  const releaseOwn = studio && (await admissionOf(studio.username).enter(signal));
  try {
    const release = await admission[access].enter(signal);
    const run = studio === undefined ? work() : studioQuota.run(studio.username, work);
    return await run.finally(release);
  } finally {
    releaseOwn?.();
  }
}

function admissionOf(username: string): Admission {
  const admission = studioAdmissions.get(username) ?? createAdmission(1);
  studioAdmissions.set(username, admission);
  return admission;
}

/** Admissions by the name of the account, because an update of the accounts replaces all objects of accounts. */
const studioAdmissions = new Map<string, Admission>();

async function insertData(
  execution: Execution,
  insert: DataInsert,
  data: ByteStream,
): Promise<ExecutionResult> {
  const { engine, files, head, signal } = execution;
  return await files.withData(data, (path, bytes) => {
    const settings = withParameters(head, insertSettings(head.settings, insert.clauses, bytes));
    const sql = `${insert.target} FROM INFILE ${sqlString(path)} COMPRESSION 'none'${insert.clauses}`;
    const request = { sql, database: head.database, settings, signal };
    return withAdmission(execution, async () => writeResult(await engine.write(request)));
  });
}

async function runWrite({ engine, head, signal }: Execution, sql: string): Promise<ExecutionResult> {
  const settings = withParameters(head, statementSettings(head.settings, sql));
  return writeResult(await engine.write({ sql, database: head.database, settings, signal }));
}

/** Runs a statement that returns rows. Runs the normalized text, which was checked against the reader's rights. */
async function runRead(
  { engine, files, head, signal }: Execution,
  statement: Statement,
  normalized: string,
): Promise<ExecutionResult> {
  const format = statement.format ?? head.defaultFormat;
  if (!/^\w+$/.test(format)) throw exceptions.unknownFormat(`Unknown format ${format}`);
  const isReader = head.access === 'reader';
  const { settings: readersOwn, lowered } = lowerTimeLimit(head.settings);
  const studioSettings = head.studio === undefined ? [] : STUDIO_SETTINGS;
  const baseSettings = isReader ? readerSettings() : statementSettings(head.settings, '');
  const { outcome, body } = await files.collect(signal, async (path, fileSignal) => {
    const { kind, beforeFormat: front, settings } = statement;
    const intoFile = `${front} INTO OUTFILE ${sqlString(path)} FORMAT ${format}${settings}`;
    const sql = kind === 'select' ? intoFile : normalized;
    const result = await engine.query({
      ...{ sql, database: head.database, format, signal: fileSignal },
      settings: withParameters(
        head,
        new Map([...baseSettings, ...studioSettings, ['max_query_size', String(MAX_NORMALIZED_BYTES)]]),
      ),
      ...(isReader && { reader: { settings: readersOwn, normalized, studio: head.studio } }),
    });
    // Checks the types before the response starts, because a later error could only close the connection.
    if (kind === 'select' && needsConversion(head, format)) await checkTypes(path);
    return result;
  });
  const resultBody = body ?? { content: outcome.bytes, bytes: outcome.bytes.length };
  const summary = {
    read_rows: outcome.rowsRead,
    read_bytes: outcome.bytesRead,
    result_rows: outcome.rowsRead,
    result_bytes: resultBody.bytes,
    elapsed_ns: outcome.elapsed * 1e9,
  };
  return { body: resultBody, format, loweredSettings: isReader ? lowered : '', summary };
}

function writeResult({ rowsWritten, bytesWritten, elapsed }: WriteOutcome): ExecutionResult {
  return emptyResult({
    read_rows: rowsWritten,
    read_bytes: bytesWritten,
    written_rows: rowsWritten,
    written_bytes: bytesWritten,
    elapsed_ns: elapsed * 1e9,
  });
}

function emptyResult(summary: Summary): ExecutionResult {
  const body = { content: Buffer.alloc(0), bytes: 0 };
  return { body, format: undefined, loweredSettings: '', summary };
}

function withParameters(head: RequestHead, settings: ReadonlyMap<string, string>): Map<string, string> {
  return new Map([...settings, ...head.parameters]);
}
