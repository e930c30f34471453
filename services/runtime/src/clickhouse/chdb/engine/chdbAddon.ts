/**
 * Types of the engine's native functions. The functions come from chdb's loader and not from its class `Session`, for two
 * measured reasons. Closing a `Session` waits for all running calls of the process. A long query would therefore keep the
 * sessions of short queries open (0.14 MB per session). Only `InsertRawAsyncConnection` returns the number of written rows,
 * which clients need.
 */

import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { StartRefused } from '../../../process/errors.ts';

/** Connection to the engine: a session with its own settings, parameters, and current database. */
export type Connection = { readonly brand: 'chdb connection' };

export interface QueryOutcome {
  bytes: Buffer;
  elapsed: number;
  /** Number of rows of the result, despite the name of the field. */
  rowsRead: number;
  bytesRead: number;
}

export interface WriteOutcome {
  elapsed: number;
  /** Number of written rows, including the rows of materialized views. */
  rowsWritten: number;
  bytesWritten: number;
}

export interface ChdbAddon {
  CreateConnection(path: string, args?: readonly string[]): Connection;
  CloseConnection(connection: Connection): void;
  QueryAsyncConnection(connection: Connection, sql: string, format: string): Promise<QueryOutcome>;
  /** Runs one statement, which consists of `prefix`, a line feed, and `data`. */
  InsertRawAsyncConnection(
    connection: Connection,
    prefix: string,
    data: Buffer,
    countLines: boolean,
  ): Promise<WriteOutcome>;
}

/** Loads the engine, a library of 566 MB that is mapped at first use. @throws StartRefused if the library is not installed. */
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
