/**
 * Runs statements in the embedded engine: each request on a connection of its own, off the event loop.
 *
 * A connection is never used twice. It keeps the settings that were made on it, and after an error in the middle of an
 * output the next query on it answered with the failed one's rows. A new one costs 0.2 ms, as long as another one
 * keeps the data directory open; that one is also what lets merges run while no request does.
 */

import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { ChdbAddon, Connection, QueryOutcome, WriteOutcome } from './chdbAddon.ts';
import { exceptions, fromEngine } from './httpErrors.ts';
import { CANCEL_GRACE_MS, KILL_RETRY_MS } from './limits.ts';
import { setStatement, sqlIdentifier, sqlString } from './sqlText.ts';

export interface EngineRequest {
  sql: string;
  database: string | undefined;
  /** Settings by name, and query parameters as `param_<name>`. */
  settings: ReadonlyMap<string, string>;
  /** More settings, as the statement itself wrote them: `a = 1, b = 'x'`. */
  settingsText: string | undefined;
  /** Aborting it ends the wait in any case; a `query` is also killed, a `write` runs to its end. */
  signal: AbortSignal;
}

export interface Engine {
  readonly version: string;
  readonly timezone: string;
  /** @throws ClickHouseException */
  query(request: EngineRequest & { format: string }): Promise<QueryOutcome>;
  /** @throws ClickHouseException */
  write(request: EngineRequest): Promise<WriteOutcome>;
  /** Kills what still runs, waits for it for a while and lets go of the data directory. */
  close(): Promise<void>;
}

/** Opens the directory; throws what the engine says when it cannot. */
export async function openEngine(
  addon: ChdbAddon,
  directory: string,
  args: readonly string[],
): Promise<Engine> {
  const keeper = addon.CreateConnection(directory, args);
  const create = `CREATE DATABASE IF NOT EXISTS ${sqlIdentifier(DEFAULT_DATABASE)} ENGINE = Atomic`;
  await addon.QueryAsyncConnection(keeper, create, 'Null');
  const facts = await addon.QueryAsyncConnection(keeper, 'SELECT version(), timezone()', 'TabSeparated');
  const [version = '', timezone = ''] = facts.bytes.toString().trim().split('\t');
  const running = new Set<Promise<unknown>>();
  const closing = new AbortController();

  async function onOwnConnection<T>(
    request: EngineRequest,
    run: (connection: Connection) => Promise<T>,
  ): Promise<T> {
    if (request.signal.aborted || closing.signal.aborted) throw exceptions.cancelled();
    const connection = addon.CreateConnection(directory);
    try {
      for (const statement of preparation(request)) {
        await addon.QueryAsyncConnection(connection, statement, 'Null');
      }
      if (request.signal.aborted) throw exceptions.cancelled();
      return await run(connection);
    } catch (error) {
      throw fromEngine(error);
    } finally {
      addon.CloseConnection(connection);
    }
  }

  function tracked<T>(work: Promise<T>): Promise<T> {
    running.add(work);
    return work.finally(() => running.delete(work));
  }

  async function query(request: EngineRequest & { format: string }): Promise<QueryOutcome> {
    // The only thing about a query that can be chosen here and is seen in `system.processes`.
    const mark = `questlog-${randomUUID()}`;
    const settled = new AbortController();
    const settings = new Map([...request.settings, ['log_comment', mark]]);
    const work = tracked(
      onOwnConnection({ ...request, settings }, (connection) =>
        addon.QueryAsyncConnection(connection, request.sql, request.format),
      ),
    );
    const abandoned = AbortSignal.any([request.signal, closing.signal]);
    const kill = () => void killUntil(settled.signal, mark);
    abandoned.addEventListener('abort', kill, { once: true });
    try {
      return await work;
    } finally {
      settled.abort();
      abandoned.removeEventListener('abort', kill);
    }
  }

  /** Again and again until it has ended: the query may not be there yet, or not look at its flag for a while. */
  async function killUntil(settled: AbortSignal, mark: string): Promise<void> {
    const sql = `KILL QUERY WHERE Settings['log_comment'] = ${sqlString(mark)} ASYNC`;
    while (!settled.aborted) {
      const connection = addon.CreateConnection(directory);
      // A failed one is tried again; what makes it fail for good also ends the query.
      await tracked(addon.QueryAsyncConnection(connection, sql, 'Null').catch(() => undefined));
      addon.CloseConnection(connection);
      await delay(KILL_RETRY_MS);
    }
  }

  /** Not killed: a write that is stopped between its steps is harder to reason about than one that has ended. */
  function write(request: EngineRequest): Promise<WriteOutcome> {
    return tracked(
      onOwnConnection(request, (connection) =>
        addon.InsertRawAsyncConnection(connection, request.sql, Buffer.alloc(0), false),
      ),
    );
  }

  async function close(): Promise<void> {
    closing.abort();
    const deadline = AbortSignal.timeout(CANCEL_GRACE_MS);
    while (running.size > 0 && !deadline.aborted) {
      await Promise.race([Promise.allSettled(running), delay(KILL_RETRY_MS)]);
    }
    // Under a running statement the directory stays open: closing it would crash the process.
    if (running.size === 0) addon.CloseConnection(keeper);
  }

  return { version, timezone, query, write, close };
}

function preparation(request: EngineRequest): string[] {
  const use = `USE ${sqlIdentifier(request.database ?? DEFAULT_DATABASE)}`;
  const own = request.settingsText === undefined ? undefined : `SET ${request.settingsText}`;
  return [use, setStatement(request.settings), own].filter((statement) => statement !== undefined);
}

/** chdb's own `default` is an Overlay (Atomic and files as tables), made anew at each start whatever one puts there. */
const DEFAULT_DATABASE = 'questlog';
