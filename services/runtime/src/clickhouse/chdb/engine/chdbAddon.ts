/**
 * The engine's native functions, typed.
 *
 * They are taken from chdb's own loader and not from its `Session` class, for two reasons that were measured. Closing
 * a `Session` waits until every call of the process that was running at that moment has ended, so one long query
 * keeps the sessions of all the short ones beside it open (0.14 MB each). And only `InsertRawAsyncConnection` says
 * how many rows were written, which clients ask for.
 */

import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { StartRefused } from '../../../process/errors.ts';

/** A connection to the engine: one session, with its own settings, parameters and current database. */
export type Connection = { readonly brand: 'chdb connection' };

export interface QueryOutcome {
  bytes: Buffer;
  elapsed: number;
  /** Rows of the result, whatever the name says. */
  rowsRead: number;
  bytesRead: number;
}

export interface WriteOutcome {
  elapsed: number;
  /** Rows written, those of materialized views too. */
  rowsWritten: number;
  bytesWritten: number;
}

export interface ChdbAddon {
  CreateConnection(path: string, args?: readonly string[]): Connection;
  CloseConnection(connection: Connection): void;
  QueryAsyncConnection(connection: Connection, sql: string, format: string): Promise<QueryOutcome>;
  /** Runs `prefix`, a line feed and `data` as one statement. */
  InsertRawAsyncConnection(
    connection: Connection,
    prefix: string,
    data: Buffer,
    countLines: boolean,
  ): Promise<WriteOutcome>;
}

/**
 * Loads the engine (a library of 566 MB, mapped on first use).
 * @throws StartRefused where it is not installed, or cannot be: chdb has no build for this platform.
 */
export function loadChdbAddon(): ChdbAddon {
  const require = createRequire(import.meta.url);
  const loader: { loadNative(): ChdbAddon } = require(
    join(dirname(require.resolve('chdb')), 'dist/loader.js'),
  );
  try {
    return loader.loadNative();
  } catch (cause) {
    if (Reflect.get(Object(cause), 'code') !== NOT_INSTALLED) throw cause;
    const here = `${process.platform}-${process.arch}`;
    throw new StartRefused(
      `chdb’s library for ${here} is not installed (the Docker image leaves it out); CLICKHOUSE_URL names a ClickHouse server to use instead`,
      { cause },
    );
  }
}

const NOT_INSTALLED = 'CHDB_PLATFORM';
