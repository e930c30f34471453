/** Answers one HTTP request: who asks, what is asked, run it, say what came of it. */

import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Admission } from './admission.ts';
import { decodeContent } from './contentDecoding.ts';
import type { Engine } from './engine.ts';
import { ClickHouseException, exceptions, fromEngine } from './httpErrors.ts';
import type { InsertSpool } from './insertSpool.ts';
import { MAX_OPEN_REQUESTS } from './limits.ts';
import { readForm } from './multipartForm.ts';
import { insertSettings, statementSettings } from './querySettings.ts';
import { type InsertQuery, type PlainQuery, readQuery } from './requestBody.ts';
import { type Credentials, type RequestHead, readCredentials, readRequestHead } from './requestParsing.ts';
import { type Summary, sendError, sendResult, sendText } from './responding.ts';
import { sqlString } from './sqlText.ts';

export interface HandlerDeps {
  engine: Engine;
  admission: Admission;
  spool: InsertSpool;
  credentials: Credentials;
  /** How many requests are open, this one included. */
  openRequests: () => number;
}

/** Never rejects: whatever goes wrong is answered, or the client has gone. */
export async function handleRequest(
  deps: HandlerDeps,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { signal, done } = abandonment(response);
  let head: RequestHead | undefined;
  try {
    if (new URL(request.url ?? '/', 'http://embedded').pathname === '/ping')
      return sendText(response, 'Ok.\n');
    authenticate(deps.credentials, readCredentials(request), response);
    head = readRequestHead(request);
    if (head.path !== '/')
      throw new ClickHouseException(1002, 'UNKNOWN_EXCEPTION', `There is no ${head.path}.`);
    if (deps.openRequests() > MAX_OPEN_REQUESTS) throw exceptions.tooManyQueries(MAX_OPEN_REQUESTS);
    await answer(deps, request, response, head, signal);
  } catch (error) {
    if (!request.readableEnded) response.setHeader('Connection', 'close');
    sendError(response, head, deps.engine, fromEngine(error));
  } finally {
    done();
    request.resume();
  }
}

async function answer(
  deps: HandlerDeps,
  request: IncomingMessage,
  response: ServerResponse,
  urlHead: RequestHead,
  signal: AbortSignal,
): Promise<void> {
  const body = decodeContent(request, urlHead.contentEncoding);
  const isForm = urlHead.contentType.startsWith('multipart/form-data');
  const head = isForm ? await readForm(urlHead, body) : urlHead;
  const query = await readQuery(head.urlQuery, isForm ? nothing() : body);
  if (query === undefined) {
    if (head.method === 'GET') return sendText(response, 'Ok.\n');
    throw exceptions.syntax('Empty query.');
  }
  if ('insert' in query) return insertData(deps, response, head, query, signal);
  if (query.statement.kind === 'read') return select(deps, response, head, query, signal);
  return runWrite(deps, response, head, query, signal);
}

async function select(
  deps: HandlerDeps,
  response: ServerResponse,
  head: RequestHead,
  query: PlainQuery,
  signal: AbortSignal,
): Promise<void> {
  const format = query.statement.format ?? head.defaultFormat;
  const leave = await deps.admission.enter(signal);
  const outcome = await deps.engine
    .query({ ...common(head, signal), sql: query.sql, settings: settingsOf(head, statementSettings), format })
    .finally(leave);
  const release = deps.admission.holdResult(outcome.bytes.length);
  response.once('close', release);
  const summary = {
    ...EMPTY_SUMMARY,
    readRows: outcome.rowsRead,
    readBytes: outcome.bytesRead,
    resultRows: outcome.rowsRead,
    resultBytes: outcome.bytes.length,
    elapsedS: outcome.elapsed,
  };
  await sendResult(response, head, deps.engine, { bytes: outcome.bytes, format, summary });
}

async function runWrite(
  deps: HandlerDeps,
  response: ServerResponse,
  head: RequestHead,
  query: PlainQuery,
  signal: AbortSignal,
): Promise<void> {
  refuseSessionState(query.sql);
  const leave = await deps.admission.enter(signal);
  const outcome = await deps.engine
    .write({ ...common(head, signal), sql: query.sql, settings: settingsOf(head, statementSettings) })
    .finally(leave);
  await sendWritten(deps, response, head, outcome);
}

async function insertData(
  deps: HandlerDeps,
  response: ServerResponse,
  head: RequestHead,
  query: InsertQuery,
  signal: AbortSignal,
): Promise<void> {
  const settings = settingsOf(head, (own) => insertSettings(own, query.settingsText));
  const outcome = await deps.spool.withFile(query.data, async (path) => {
    const sql = `${query.target} FROM INFILE ${sqlString(path)} COMPRESSION 'none' FORMAT ${query.insert.format}`;
    const leave = await deps.admission.enter(signal);
    return deps.engine
      .write({ ...common(head, signal), sql, settings, settingsText: query.settingsText })
      .finally(leave);
  });
  await sendWritten(deps, response, head, outcome);
}

function sendWritten(
  deps: HandlerDeps,
  response: ServerResponse,
  head: RequestHead,
  outcome: { rowsWritten: number; bytesWritten: number; elapsed: number },
): Promise<void> {
  const summary = {
    ...EMPTY_SUMMARY,
    readRows: outcome.rowsWritten,
    readBytes: outcome.bytesWritten,
    writtenRows: outcome.rowsWritten,
    writtenBytes: outcome.bytesWritten,
    elapsedS: outcome.elapsed,
  };
  return sendResult(response, head, deps.engine, { bytes: Buffer.alloc(0), format: undefined, summary });
}

function common(head: RequestHead, signal: AbortSignal) {
  return { database: head.database, settingsText: undefined as string | undefined, signal };
}

function settingsOf(
  head: RequestHead,
  complete: (own: ReadonlyMap<string, string>) => ReadonlyMap<string, string>,
): ReadonlyMap<string, string> {
  return new Map([...complete(head.settings), ...head.parameters]);
}

/** What would last until the next request of a session, which this server does not keep; better than losing it silently. */
function refuseSessionState(sql: string): void {
  const found = /^\s*(?:(CREATE|REPLACE)\s+(?:OR\s+REPLACE\s+)?TEMPORARY|USE|SET)\b/i.exec(sql);
  if (found === null) return;
  throw exceptions.notImplemented(
    'The embedded ClickHouse keeps nothing from one request to the next: pass settings and the database as URL parameters, and use a table instead of a temporary one.',
  );
}

function authenticate(expected: Credentials, given: Credentials | undefined, response: ServerResponse): void {
  if (given !== undefined && isSame(expected, given)) return;
  if (given === undefined) response.setHeader('WWW-Authenticate', 'Basic realm="ClickHouse server HTTP API"');
  const name = given?.username ?? expected.username;
  const message = `${name}: Authentication failed: password is incorrect, or there is no user with such name.`;
  throw new ClickHouseException(
    given === undefined ? 194 : 516,
    given === undefined ? 'REQUIRED_PASSWORD' : 'AUTHENTICATION_FAILED',
    message,
  );
}

/** Over digests of equal length, so that neither the time nor the length tells anything. */
function isSame(one: Credentials, other: Credentials): boolean {
  const digest = ({ username, password }: Credentials) =>
    createHash('sha256')
      .update(JSON.stringify([username, password]))
      .digest();
  return timingSafeEqual(digest(one), digest(other));
}

/** Aborts when the connection closes before the answer is complete. */
function abandonment(response: ServerResponse): { signal: AbortSignal; done: () => void } {
  const controller = new AbortController();
  const onClose = () => controller.abort();
  response.once('close', onClose);
  return { signal: controller.signal, done: () => response.off('close', onClose) };
}

async function* nothing(): AsyncGenerator<Buffer> {}

const EMPTY_SUMMARY: Summary = {
  readRows: 0,
  readBytes: 0,
  writtenRows: 0,
  writtenBytes: 0,
  resultRows: 0,
  resultBytes: 0,
  elapsedS: 0,
};
