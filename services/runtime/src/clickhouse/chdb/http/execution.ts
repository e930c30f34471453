/** Runs a query that has been read: a SELECT into a file, an INSERT's data out of one, everything else as it is. */

import type { ByteStream } from '../../../process/inflate.ts';
import type { Admission } from '../engine/admission.ts';
import type { WriteOutcome } from '../engine/chdbAddon.ts';
import type { Engine } from '../engine/engine.ts';
import {
  MAX_INSERT_TEXT_BYTES,
  MAX_PRINT_BYTES,
  MAX_QUERY_TEXT_BYTES,
  MAX_READER_TEXT_BYTES,
} from '../engine/limits.ts';
import { insertSettings, readerSettings, statementSettings } from '../engine/querySettings.ts';
import type { RequestFiles, ResultBody } from '../engine/requestFiles.ts';
import { sqlString } from '../engine/sqlText.ts';
import { exceptions } from './httpErrors.ts';
import { BodyReader, sqlOf } from './requestBody.ts';
import type { Access, RequestHead } from './requestParsing.ts';
import { type DataInsert, findDataInsert, readStatement, type Statement } from './statement.ts';

export interface ExecutionDeps {
  engine: Engine;
  admission: Readonly<Record<Access, Admission>>;
  files: RequestFiles;
}

export interface Answer {
  body: ResultBody;
  /** Undefined for a statement that has no rows to answer with. */
  format: string | undefined;
  summary: Summary;
}

/** What `X-ClickHouse-Summary` says; a count that is not there is 0. */
export type Summary = Readonly<Partial<Record<SummaryField, number>>>;
type SummaryField = `${'read' | 'written' | 'result'}_${'rows' | 'bytes'}` | 'elapsed_ns';

/** A request that is being run. */
interface Run {
  deps: ExecutionDeps;
  head: RequestHead;
  signal: AbortSignal;
}

/** @throws ClickHouseException */
export async function execute(run: Run, body: ByteStream): Promise<Answer> {
  const { deps, head, signal } = run;
  const reader = new BodyReader(head.urlQuery, body);
  const print = (text: string) => deps.engine.print(text, signal);
  if (head.access === 'product') {
    const start = await reader.start(MAX_INSERT_TEXT_BYTES);
    const insert = await findDataInsert(start, (text) => admitted(run, () => print(text)));
    if (insert !== undefined) return await insertData(run, insert, reader.from(insert.dataStart));
  }
  const maxBytes = head.access === 'reader' ? MAX_READER_TEXT_BYTES : MAX_QUERY_TEXT_BYTES;
  const sql = sqlOf(await reader.all(maxBytes));
  return await admitted(run, async () => {
    const printed = await print(sql);
    const statement = readStatement(printed);
    if (statement.kind !== 'write') return await runRead(run, statement, printed);
    if (head.access === 'product') return await runWrite(run, sql);
    throw exceptions.readonly(`${head.access}: Cannot execute query in readonly mode.`);
  });
}

async function admitted<T>({ deps, head, signal }: Run, work: () => Promise<T>): Promise<T> {
  const leave = await deps.admission[head.access].enter(signal);
  return await work().finally(leave);
}

async function insertData(run: Run, insert: DataInsert, data: ByteStream): Promise<Answer> {
  const { deps, head, signal } = run;
  return await deps.files.withData(data, (path, bytes) => {
    const settings = withParameters(head, insertSettings(head.settings, insert.clauses, bytes));
    const sql = `${insert.target} FROM INFILE ${sqlString(path)} COMPRESSION 'none'${insert.clauses}`;
    const request = { sql, database: head.database, settings, signal };
    return admitted(run, async () => written(await deps.engine.write(request)));
  });
}

async function runWrite({ deps, head, signal }: Run, sql: string): Promise<Answer> {
  const settings = withParameters(head, statementSettings(head.settings, sql));
  return written(await deps.engine.write({ sql, database: head.database, settings, signal }));
}

/** Runs the print, so that a reader's is what has been checked. */
async function runRead({ deps, head, signal }: Run, statement: Statement, print: string): Promise<Answer> {
  const format = statement.format ?? head.defaultFormat;
  if (!/^\w+$/.test(format)) throw exceptions.unknownFormat(`Unknown format ${format}`);
  const isReader = head.access === 'reader';
  const ours = isReader ? readerSettings() : statementSettings(head.settings, '');
  const { outcome, body } = await deps.files.collect(signal, (path, signalOfFile) => {
    const { kind, front, settings } = statement;
    const intoFile = `${front} INTO OUTFILE ${sqlString(path)} FORMAT ${format}${settings}`;
    const sql = kind === 'select' ? intoFile : print;
    return deps.engine.query({
      ...{ sql, database: head.database, format, signal: signalOfFile },
      settings: withParameters(head, new Map([...ours, ['max_query_size', String(MAX_PRINT_BYTES)]])),
      ...(isReader && { reader: { settings: head.settings, print } }),
    });
  });
  const found = body ?? { content: outcome.bytes, bytes: outcome.bytes.length };
  const summary = {
    read_rows: outcome.rowsRead,
    read_bytes: outcome.bytesRead,
    result_rows: outcome.rowsRead,
    result_bytes: found.bytes,
    elapsed_ns: outcome.elapsed * 1e9,
  };
  return { body: found, format, summary };
}

function written({ rowsWritten, bytesWritten, elapsed }: WriteOutcome): Answer {
  const summary = {
    read_rows: rowsWritten,
    read_bytes: bytesWritten,
    written_rows: rowsWritten,
    written_bytes: bytesWritten,
    elapsed_ns: elapsed * 1e9,
  };
  return { body: { content: Buffer.alloc(0), bytes: 0 }, format: undefined, summary };
}

function withParameters(head: RequestHead, settings: ReadonlyMap<string, string>): Map<string, string> {
  return new Map([...settings, ...head.parameters]);
}
