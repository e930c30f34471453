/**
 * Runs statements in the embedded engine: each request on a connection of its own, off the event loop.
 *
 * A connection is never used twice. It keeps the settings that were made on it, and after an error in the middle of an
 * output the next query on it answered with the failed one's rows. A new one costs 0.2 ms, as long as another one
 * keeps the data directory open; that one is also what lets merges run while no request does.
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
  /** Set for an account that only reads. */
  reader?: ReaderRequest;
  /** Aborting it kills a `query`; a `write` that has begun runs to its end. */
  signal: AbortSignal;
}

export interface ReaderRequest {
  /** As the caller gave them; not checked yet. */
  settings: ReadonlyMap<string, string>;
  /** The statement without the front's own INTO OUTFILE, as `print` gave it. */
  normalized: string;
}

export interface Engine {
  readonly version: string;
  readonly timezone: string;
  /**
   * A statement as the engine's own parser prints it, on one line: comments gone, literals in single quotes, other names
   * than plain ones in backquotes. Data behind an INSERT are not looked at, and left out.
   * @throws ClickHouseException for what does not parse, and for several statements
   */
  normalize(statement: string, signal: AbortSignal): Promise<string>;
  /** @throws ClickHouseException */
  query(request: EngineRequest & { format: string }): Promise<QueryOutcome>;
  /** @throws ClickHouseException */
  write(request: EngineRequest): Promise<WriteOutcome>;
  /** Resolves when the engine has answered a query, which looks for files that were not written whole. */
  probe(): Promise<void>;
  /** Kills what still runs, waits for it for a while and lets go of the data directory. */
  close(): Promise<void>;
}

export interface EngineMonitor {
  maxReaderSeconds: number;
  onBroken(reason: string): void;
}

/** Opens the directory; throws what the engine says when it cannot. */
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
  /** One look for all writes that wait for it; it begins after their end. */
  hasFailedWrites: () => Promise<boolean>;
  /** Everything that has a connection of its own. */
  running: Set<Promise<unknown>>;
  closing: AbortController;
  normalizedStatements: Map<string, string>;
}

/** A print takes as long as a small query, and the product says the same few statements again and again. */
async function normalize(open: OpenEngine, statement: string, signal: AbortSignal): Promise<string> {
  const cached = open.normalizedStatements.get(statement);
  if (cached !== undefined) return cached;
  const sql = `SELECT formatQuerySingleLine(${sqlString(statement)})`;
  const settings = new Map([
    ['max_query_size', String(Buffer.byteLength(sql) + 1)],
    ['max_memory_usage', String(limits.MAX_QUERY_MEMORY_BYTES)],
    // chdb takes `1 + 1` for a query; a server does not.
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
  // The only thing about a query that can be chosen here and is seen in `system.processes`.
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

/** Some functions look at no limit while they work on a value, and nothing but the end of the process stops them. */
function startTimeLimit({ monitor }: OpenEngine): NodeJS.Timeout {
  const { maxReaderSeconds, onBroken } = monitor;
  const stuck = () =>
    onBroken(
      `a statement runs on ${limits.READER_OVERTIME_SECONDS} s beyond its limit of ${maxReaderSeconds} s`,
    );
  return setTimeout(stuck, (maxReaderSeconds + limits.READER_OVERTIME_SECONDS) * 1000);
}

/** Not killed: a write that is stopped between its steps is harder to reason about than one that has ended. */
function runWrite(open: OpenEngine, request: EngineRequest): Promise<WriteOutcome> {
  const run = async (connection: Connection) => {
    const outcome = await open.addon.InsertRawAsyncConnection(
      connection,
      request.sql,
      Buffer.alloc(0),
      false,
    );
    // What is written stays so when the look fails; the next probe looks again.
    if (await open.hasFailedWrites().catch(() => false)) throw exceptions.notEnoughSpace(INCOMPLETE_FILE);
    return outcome;
  };
  return track(open, withConnection(open, request, run));
}

const INCOMPLETE_FILE = 'A file was not written whole: the engine must be started again.';

/**
 * chdb takes a write that fails, on a full disk above all, for one that did not (its `WriteBufferFromFileDescriptor` has
 * the throw commented out), and only counts it: an INSERT is called done, a merged part without its bytes takes the place
 * of its sources. A start finds such parts by the sizes of their files, puts them aside, and takes back the sources, which
 * stay for minutes.
 */
async function hasFailedWrites(open: OpenEngine): Promise<boolean> {
  const { bytes } = await runOnNewConnection(open, FAILED_WRITES, 'TabSeparatedRaw');
  if (bytes.length === 0) return false;
  open.monitor.onBroken('a file was not written whole: the disk is or was full');
  return true;
}

const FAILED_WRITES =
  "SELECT value FROM system.events WHERE event = 'WriteBufferFromFileDescriptorWriteFailed' AND value > 0";

/** Again and again until it has ended: the query may not be there yet, or not look at its flag for a while. */
async function killUntil(open: OpenEngine, settled: AbortSignal, queryTag: string): Promise<void> {
  const sql = `KILL QUERY WHERE Settings['log_comment'] = ${sqlString(queryTag)} ASYNC`;
  while (!settled.aborted) {
    // A failed one is tried again; what makes it fail for good also ends the query.
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

/** Asked anew, as an error also quotes its statement. */
async function isShutDown(open: OpenEngine): Promise<boolean> {
  return await runOnNewConnection(open, 'SELECT 1').then(() => false, mentionsShutdown);
}

/** On a connection without any settings. */
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
 * Leaves the connection with what a reader may do. The settings come before `readonly`, which would refuse them, and
 * behind the profile that bounds them.
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
  // Under a running statement the directory stays open: closing it would crash the process.
  if (open.running.size === 0) open.addon.CloseConnection(keepAliveConnection);
}

function preparation(request: EngineRequest): string[] {
  if (request.reader !== undefined && request.database?.toLowerCase() === 'system') {
    throw exceptions.accessDenied(`${READER}: tables of system are read as system.<table>.`);
  }
  const use = `USE ${sqlIdentifier(request.database ?? DEFAULT_DATABASE)}`;
  // Long parameters make a SET that is longer than the engine takes for a query, unless that is changed before it.
  const limit = request.settings.get('max_query_size') ?? DEFAULT_MAX_QUERY_SIZE;
  const set = setStatement([...request.settings, ['max_query_size', limit]]);
  const raiseLimit = `SET max_query_size = ${Buffer.byteLength(set) + 1}`;
  return [use, ...(set.length > LONG_SET_CHARACTERS ? [raiseLimit] : []), set];
}

const LONG_SET_CHARACTERS = 50_000;
/** ClickHouse's own. */
const DEFAULT_MAX_QUERY_SIZE = '262144';

/** chdb's own `default` is an Overlay (Atomic and files as tables), made anew at each start whatever one puts there. */
export const DEFAULT_DATABASE = 'questlog';
