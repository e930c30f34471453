/**
 * Runs statements in the embedded engine. Each statement has a new connection, because a used connection keeps its settings and
 * can return rows of an earlier, failed query. An additional idle connection keeps the data directory open, so that merges
 * continue and a new connection costs only 0.2 ms.
 */

import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { messageOf } from '../../../process/errors.ts';
import { coalesceCalls } from '../../../process/waiting.ts';
import type { StudioReader } from '../../studioTables.ts';
import { ClickHouseException, exceptions, fromEngine } from '../http/httpErrors.ts';
import type { ChdbAddon, Connection, QueryOutcome, WriteOutcome } from './chdbAddon.ts';
import { DATABASE, READER, STUDIO } from './engineConfig.ts';
import * as limits from './limits.ts';
import {
  isReaderSetting,
  listsSettings,
  namesInClauses,
  namesInSubqueries,
  readerViolation,
  settingsInClauses,
} from './readerAccess.ts';
import { setStatement, sqlIdentifier, sqlString } from './sqlText.ts';
import { isCatalog, isStudioSetting, studioComment, studioViolation } from './studioAccess.ts';

export interface EngineRequest {
  sql: string;
  database: string | undefined;
  /** Settings and query parameters of the statement, by name. The name of a query parameter has the prefix `param_`. */
  settings: ReadonlyMap<string, string>;
  /** Settings and text of a statement from the read-only account. Undefined for other accounts. */
  reader?: ReaderRequest;
  /** Signal that cancels a running query, but not a running write. */
  signal: AbortSignal;
}

export interface ReaderRequest {
  /** Account of a studio. Undefined for the account that reads all rows. */
  studio: StudioReader | undefined;
  settings: ReadonlyMap<string, string>;
  /** Normalized text of the statement, without the INTO OUTFILE clause that Questlog adds. */
  normalized: string;
}

export interface Engine {
  readonly version: string;
  readonly timezone: string;
  /**
   * Formats a statement on one line with the engine's own parser. Removes comments and the data of an INSERT.
   * @throws ClickHouseException for a syntax error or for several statements.
   */
  normalize(statement: string, signal: AbortSignal): Promise<string>;
  query(request: EngineRequest & { format: string }): Promise<QueryOutcome>;
  write(request: EngineRequest): Promise<WriteOutcome>;
  /** Checks that the engine answers a query and that no file write has failed. */
  probe(): Promise<void>;
  close(): Promise<void>;
}

export interface EngineMonitor {
  maxReaderSeconds: number;
  onBroken(reason: string): void;
}

export async function openEngine(
  addon: ChdbAddon,
  directory: string,
  args: readonly string[],
  monitor: EngineMonitor,
): Promise<Engine> {
  const keepAliveConnection = addon.CreateConnection(directory, args);
  const create = `CREATE DATABASE IF NOT EXISTS ${sqlIdentifier(DATABASE)} ENGINE = Atomic`;
  await addon.QueryAsyncConnection(keepAliveConnection, create, 'Null');
  const facts = await addon.QueryAsyncConnection(
    keepAliveConnection,
    'SELECT version(), timezone()',
    'TabSeparated',
  );
  const [version = '', timezone = ''] = facts.bytes.toString().trim().split('\t');
  const state = {
    running: new Set<Promise<unknown>>(),
    closing: new AbortController(),
    normalizedStatements: new Map(),
  };
  const failedWrites = coalesceCalls(() => hasFailedWrites(open));
  const open: OpenEngine = { addon, directory, monitor, hasFailedWrites: failedWrites, ...state };
  return {
    version,
    timezone,
    normalize: (statement, signal) => normalize(open, statement, signal),
    query: (request) => runQuery(open, request),
    write: (request) => runWrite(open, request),
    probe: async () => void (await track(open, open.hasFailedWrites())),
    close: () => close(open, keepAliveConnection),
  };
}

interface OpenEngine {
  addon: ChdbAddon;
  directory: string;
  monitor: EngineMonitor;
  hasFailedWrites: () => Promise<boolean>;
  running: Set<Promise<unknown>>;
  closing: AbortController;
  normalizedStatements: Map<string, string>;
}

/** Normalizes a statement. The results are cached because normalizing a statement takes as long as a small query. */
async function normalize(open: OpenEngine, statement: string, signal: AbortSignal): Promise<string> {
  const cached = open.normalizedStatements.get(statement);
  if (cached !== undefined) return cached;
  const sql = `SELECT formatQuerySingleLine(${sqlString(statement)})`;
  const settings = new Map([
    ['max_query_size', String(Buffer.byteLength(sql) + 1)],
    ['max_memory_usage', String(limits.MAX_QUERY_MEMORY_BYTES)],
    // Rejects an expression such as `1 + 1` as a query. chdb accepts such a query, but a ClickHouse server does not.
    ['implicit_select', '0'],
  ]);
  const request = { sql, database: undefined, settings, signal, format: 'TabSeparatedRaw' };
  try {
    const { bytes } = await runQuery(open, request, true);
    const text = bytes.toString().trimEnd();
    if (statement.length > limits.MAX_CACHED_STATEMENT_CHARACTERS) return text;
    if (open.normalizedStatements.size >= limits.MAX_CACHED_STATEMENTS) open.normalizedStatements.clear();
    open.normalizedStatements.set(statement, text);
    return text;
  } catch (error) {
    const { code, type, message } = fromEngine(error);
    const [statementMessage = ''] = message.split(': In scope SELECT formatQuerySingleLine(');
    throw new ClickHouseException(code, type, statementMessage);
  }
}

async function runQuery(
  open: OpenEngine,
  request: EngineRequest & { format: string },
  hasTimeLimit = request.reader !== undefined,
): Promise<QueryOutcome> {
  const studio = request.reader?.studio;
  const tag = `questlog-${randomUUID()}`;
  const queryTag = studio === undefined ? tag : studioComment(tag, studio);
  const settings = new Map([...request.settings, ['log_comment', queryTag]]);
  const settled = new AbortController();
  const abandoned = AbortSignal.any([request.signal, open.closing.signal]);
  const kill = () => void track(open, killUntil(open, settled.signal, queryTag));
  abandoned.addEventListener('abort', kill, { once: true });
  const limit = hasTimeLimit ? startTimeLimit(open) : undefined;
  try {
    const run = (connection: Connection) =>
      open.addon.QueryAsyncConnection(connection, request.sql, request.format);
    return await track(open, withConnection(open, { ...request, settings }, run));
  } finally {
    settled.abort();
    clearTimeout(limit);
    abandoned.removeEventListener('abort', kill);
  }
}

/** Starts the timer that ends the process if a statement exceeds its time limit. Some SQL functions ignore all limits. */
function startTimeLimit({ monitor }: OpenEngine): NodeJS.Timeout {
  const { maxReaderSeconds, onBroken } = monitor;
  const stuck = () =>
    onBroken(`a statement exceeds its limit of ${maxReaderSeconds} s by ${limits.READER_OVERTIME_SECONDS} s`);
  return setTimeout(stuck, (maxReaderSeconds + limits.READER_OVERTIME_SECONDS) * 1000);
}

/** Runs a write. A write is never killed, because a partial write is harder to handle than a complete write. */
function runWrite(open: OpenEngine, request: EngineRequest): Promise<WriteOutcome> {
  const run = async (connection: Connection) => {
    const outcome = await open.addon.InsertRawAsyncConnection(
      connection,
      request.sql,
      Buffer.alloc(0),
      false,
    );
    if (await open.hasFailedWrites().catch(() => false)) throw exceptions.notEnoughSpace(INCOMPLETE_FILE);
    return outcome;
  };
  return track(open, withConnection(open, request, run));
}

const INCOMPLETE_FILE = 'A file was not written completely: the engine must be restarted.';

/**
 * Returns true if a write to a file has failed, for example on a full disk. chdb itself reports no error, because a `throw` in
 * `WriteBufferFromFileDescriptor` is commented out.
 */
async function hasFailedWrites(open: OpenEngine): Promise<boolean> {
  const { bytes } = await runOnNewConnection(open, FAILED_WRITES, 'TabSeparatedRaw');
  if (bytes.length === 0) return false;
  open.monitor.onBroken('a file was not written completely: the disk is or was full');
  return true;
}

const FAILED_WRITES =
  "SELECT value FROM system.events WHERE event = 'WriteBufferFromFileDescriptorWriteFailed' AND value > 0";

/** Sends KILL again and again until the query has ended, because the engine can miss a KILL that is sent too early. */
async function killUntil(open: OpenEngine, settled: AbortSignal, queryTag: string): Promise<void> {
  const sql = `KILL QUERY WHERE Settings['log_comment'] = ${sqlString(queryTag)} ASYNC`;
  while (!settled.aborted) {
    await runOnNewConnection(open, sql).catch(() => undefined);
    await delay(limits.KILL_INTERVAL_MS);
  }
}

async function withConnection<T>(
  open: OpenEngine,
  request: EngineRequest,
  work: (connection: Connection) => Promise<T>,
): Promise<T> {
  if (request.signal.aborted || open.closing.signal.aborted) throw exceptions.cancelled();
  const connection = open.addon.CreateConnection(open.directory);
  try {
    const run = (sql: string) => open.addon.QueryAsyncConnection(connection, sql, 'TabSeparatedRaw');
    for (const statement of preparation(request)) await run(statement);
    if (request.reader !== undefined) await restrict(run, request.reader);
    if (request.signal.aborted || open.closing.signal.aborted) throw exceptions.cancelled();
    return await work(connection);
  } catch (error) {
    if (!open.closing.signal.aborted && mentionsShutdown(error) && (await isShutDown(open))) {
      open.monitor.onBroken('the engine has shut down');
    }
    throw fromEngine(error);
  } finally {
    open.addon.CloseConnection(connection);
  }
}

function mentionsShutdown(error: unknown): boolean {
  return /shutting down/i.test(messageOf(error));
}

/**
 * Runs a query and returns true if the engine has shut down. Does not check the error message of an earlier statement. Such a
 * message can quote the words `shutting down` from the statement.
 */
async function isShutDown(open: OpenEngine): Promise<boolean> {
  return await runOnNewConnection(open, 'SELECT 1').then(() => false, mentionsShutdown);
}

async function runOnNewConnection(
  { addon, directory }: OpenEngine,
  sql: string,
  format = 'Null',
): Promise<QueryOutcome> {
  const connection = addon.CreateConnection(directory);
  return await addon
    .QueryAsyncConnection(connection, sql, format)
    .finally(() => addon.CloseConnection(connection));
}

/** Gives a connection only the rights of a reader. Sets `readonly` last, because it prevents further changes of settings. */
async function restrict(
  run: (sql: string) => Promise<QueryOutcome>,
  { settings, normalized, studio }: ReaderRequest,
): Promise<void> {
  const isAllowed = studio === undefined ? isReaderSetting : isStudioSetting;
  const violation = readerViolation(normalized) ?? (studio && studioViolation(normalized));
  if (violation !== undefined) throw exceptions.accessDenied(`${READER}: ${violation}.`);
  const inClauses = studio === undefined ? namesInSubqueries(normalized) : namesInClauses(normalized);
  for (const name of [...settings.keys(), ...inClauses]) {
    if (!isAllowed(name)) throw exceptions.readonly(`Cannot modify '${name}' setting in readonly mode.`);
  }
  await run(`SET ROLE ${studio === undefined ? READER : STUDIO}`);
  await run(`SET profile = '${READER}'`);
  if (settings.size > 0) await run(setStatement(settings));
  for (const [name, value] of settingsInClauses(normalized, isAllowed)) await run(`SET ${name} = ${value}`);
  await run(`SET readonly = ${listsSettings(normalized) ? 2 : 1}`);
}

async function track<T>(open: OpenEngine, work: Promise<T>): Promise<T> {
  open.running.add(work);
  try {
    return await work;
  } finally {
    open.running.delete(work);
  }
}

async function close(open: OpenEngine, keepAliveConnection: Connection): Promise<void> {
  open.closing.abort();
  const deadline = AbortSignal.timeout(limits.CANCEL_GRACE_MS);
  while (open.running.size > 0 && !deadline.aborted) {
    await Promise.race([Promise.allSettled(open.running), delay(limits.KILL_INTERVAL_MS)]);
  }
  // Does not close the directory while a statement is running, because the process would crash.
  if (open.running.size === 0) open.addon.CloseConnection(keepAliveConnection);
}

function preparation(request: EngineRequest): string[] {
  const { reader, database = DATABASE } = request;
  const isHidden = reader?.studio === undefined ? database.toLowerCase() === 'system' : isCatalog(database);
  if (reader !== undefined && isHidden) {
    throw exceptions.accessDenied(`${READER}: read tables of ${database} as ${database}.<table>.`);
  }
  const use = `USE ${sqlIdentifier(database)}`;
  // Raises `max_query_size`, because long query parameters can make the SET statement longer than the default limit.
  const limit = request.settings.get('max_query_size') ?? DEFAULT_MAX_QUERY_SIZE;
  const set = setStatement([...request.settings, ['max_query_size', limit]]);
  const raiseLimit = `SET max_query_size = ${Buffer.byteLength(set) + 1}`;
  return [use, ...(set.length > LONG_SET_CHARACTERS ? [raiseLimit] : []), set];
}

const LONG_SET_CHARACTERS = 50_000;
const DEFAULT_MAX_QUERY_SIZE = '262144';
