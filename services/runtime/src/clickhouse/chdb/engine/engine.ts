/**
 * Runs statements in the embedded engine, each on its own connection and off the event loop. A connection is never
 * reused. It keeps its settings, and after an error in the middle of an output, its next query returned rows of the
 * failed one. A new connection costs 0.2 ms while another connection keeps the data directory open. That connection
 * also lets merges run between requests.
 */

import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { messageOf } from '../../../process/errors.ts';
import { coalesceCalls } from '../../../process/waiting.ts';
import { ClickHouseException, exceptions, fromEngine } from '../http/httpErrors.ts';
import type { ChdbAddon, Connection, QueryOutcome, WriteOutcome } from './chdbAddon.ts';
import { READER } from './engineConfig.ts';
import * as limits from './limits.ts';
import { isReaderSetting, readerViolation, settingsInClauses } from './readerAccess.ts';
import { setStatement, sqlIdentifier, sqlString } from './sqlText.ts';

export interface EngineRequest {
  sql: string;
  database: string | undefined;
  /** Settings by name, and query parameters as `param_<name>`. */
  settings: ReadonlyMap<string, string>;
  /** Set for an account that can only read. */
  reader?: ReaderRequest;
  /** Aborting kills a `query`. A `write` that has started is completed. */
  signal: AbortSignal;
}

export interface ReaderRequest {
  /** Settings of the caller, unchecked. */
  settings: ReadonlyMap<string, string>;
  /** Result of `normalize`, without the added INTO OUTFILE. */
  normalized: string;
}

export interface Engine {
  readonly version: string;
  readonly timezone: string;
  /**
   * Formats a statement on one line with the engine's own parser: without comments, with literals in single quotes, and
   * with unusual names in backquotes. Omits data after an INSERT.
   * @throws ClickHouseException for a syntax error, and for several statements.
   */
  normalize(statement: string, signal: AbortSignal): Promise<string>;
  query(request: EngineRequest & { format: string }): Promise<QueryOutcome>;
  write(request: EngineRequest): Promise<WriteOutcome>;
  /** Resolves when the engine has answered a query. The query also detects incomplete file writes. */
  probe(): Promise<void>;
  /** Kills running statements, waits for them for a limited time, and releases the data directory. */
  close(): Promise<void>;
}

export interface EngineMonitor {
  maxReaderSeconds: number;
  onBroken(reason: string): void;
}

/** Opens the directory. @throws the engine's error. */
export async function openEngine(
  addon: ChdbAddon,
  directory: string,
  args: readonly string[],
  monitor: EngineMonitor,
): Promise<Engine> {
  const keepAliveConnection = addon.CreateConnection(directory, args);
  const create = `CREATE DATABASE IF NOT EXISTS ${sqlIdentifier(DEFAULT_DATABASE)} ENGINE = Atomic`;
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
  /** Shared by all waiting writes. Each check starts after their end. */
  hasFailedWrites: () => Promise<boolean>;
  /** Work that has its own connection. */
  running: Set<Promise<unknown>>;
  closing: AbortController;
  normalizedStatements: Map<string, string>;
}

/** Caches results, because each takes as long as a small query, and the product repeats a few statements. */
async function normalize(open: OpenEngine, statement: string, signal: AbortSignal): Promise<string> {
  const cached = open.normalizedStatements.get(statement);
  if (cached !== undefined) return cached;
  const sql = `SELECT formatQuerySingleLine(${sqlString(statement)})`;
  const settings = new Map([
    ['max_query_size', String(Buffer.byteLength(sql) + 1)],
    ['max_memory_usage', String(limits.MAX_QUERY_MEMORY_BYTES)],
    // chdb accepts `1 + 1` as a query; a server does not.
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
  // The only property of a query that can be set here and is visible in `system.processes`.
  const queryTag = `questlog-${randomUUID()}`;
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

/** Some functions check no limit while they process a value. Only the end of the process stops them. */
function startTimeLimit({ monitor }: OpenEngine): NodeJS.Timeout {
  const { maxReaderSeconds, onBroken } = monitor;
  const stuck = () =>
    onBroken(`a statement exceeds its limit of ${maxReaderSeconds} s by ${limits.READER_OVERTIME_SECONDS} s`);
  return setTimeout(stuck, (maxReaderSeconds + limits.READER_OVERTIME_SECONDS) * 1000);
}

/** Writes are not killed, because a partially executed write is harder to handle than a completed one. */
function runWrite(open: OpenEngine, request: EngineRequest): Promise<WriteOutcome> {
  const run = async (connection: Connection) => {
    const outcome = await open.addon.InsertRawAsyncConnection(
      connection,
      request.sql,
      Buffer.alloc(0),
      false,
    );
    // If the check itself fails, the rows stay written, and the next probe checks again.
    if (await open.hasFailedWrites().catch(() => false)) throw exceptions.notEnoughSpace(INCOMPLETE_FILE);
    return outcome;
  };
  return track(open, withConnection(open, request, run));
}

const INCOMPLETE_FILE = 'A file was not written completely: the engine must be restarted.';

/**
 * Detects failed file writes. chdb only counts them, because `WriteBufferFromFileDescriptor` has its throw commented
 * out. On a full disk, an INSERT seems successful, and an incomplete merged part replaces its sources. The next start
 * finds such parts by their file sizes, detaches them, and restores the sources, which are kept for minutes.
 */
async function hasFailedWrites(open: OpenEngine): Promise<boolean> {
  const { bytes } = await runOnNewConnection(open, FAILED_WRITES, 'TabSeparatedRaw');
  if (bytes.length === 0) return false;
  open.monitor.onBroken('a file was not written completely: the disk is or was full');
  return true;
}

const FAILED_WRITES =
  "SELECT value FROM system.events WHERE event = 'WriteBufferFromFileDescriptorWriteFailed' AND value > 0";

/** Repeats KILL until the query has ended, because the query may not be visible yet, or check its flag late. */
async function killUntil(open: OpenEngine, settled: AbortSignal, queryTag: string): Promise<void> {
  const sql = `KILL QUERY WHERE Settings['log_comment'] = ${sqlString(queryTag)} ASYNC`;
  while (!settled.aborted) {
    // Failures are ignored. A permanent failure also ends the query.
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

/** Sends another query, because the text of an error can contain the statement. */
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

/**
 * Restricts a connection to the rights of a reader. The settings are set before `readonly`, which would reject them,
 * and after the profile that limits them.
 */
async function restrict(
  run: (sql: string) => Promise<QueryOutcome>,
  { settings, normalized }: ReaderRequest,
): Promise<void> {
  const violation = readerViolation(normalized);
  if (violation !== undefined) throw exceptions.accessDenied(`${READER}: ${violation}.`);
  for (const name of settings.keys()) {
    if (!isReaderSetting(name))
      throw exceptions.readonly(`Cannot modify '${name}' setting in readonly mode.`);
  }
  await run(`SET ROLE ${READER}`);
  await run(`SET profile = '${READER}'`);
  if (settings.size > 0) await run(setStatement(settings));
  for (const [name, value] of settingsInClauses(normalized)) await run(`SET ${name} = ${value}`);
  await run('SET readonly = 1');
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
  // The directory stays open under a running statement, because closing it would crash the process.
  if (open.running.size === 0) open.addon.CloseConnection(keepAliveConnection);
}

function preparation(request: EngineRequest): string[] {
  if (request.reader !== undefined && request.database?.toLowerCase() === 'system') {
    throw exceptions.accessDenied(`${READER}: read tables of system as system.<table>.`);
  }
  const use = `USE ${sqlIdentifier(request.database ?? DEFAULT_DATABASE)}`;
  // Long parameters make the SET statement longer than the default limit, so the limit is raised first.
  const limit = request.settings.get('max_query_size') ?? DEFAULT_MAX_QUERY_SIZE;
  const set = setStatement([...request.settings, ['max_query_size', limit]]);
  const raiseLimit = `SET max_query_size = ${Buffer.byteLength(set) + 1}`;
  return [use, ...(set.length > LONG_SET_CHARACTERS ? [raiseLimit] : []), set];
}

const LONG_SET_CHARACTERS = 50_000;
/** ClickHouse's default. */
const DEFAULT_MAX_QUERY_SIZE = '262144';

/** chdb's own database `default` is an Overlay (Atomic, plus files as tables) that every start recreates. */
export const DEFAULT_DATABASE = 'questlog';
