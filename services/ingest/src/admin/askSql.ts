/** POST /admin/sql: an operator's question to ClickHouse, read-only by construction (`store/selectOnly`). */

import { selectOnly } from '@questlog/runtime/clickhouse/selectOnly/selectOnly';
import { QueryRefused, type Store } from '@questlog/runtime/clickhouse/store';
import { Unavailable } from '@questlog/runtime/process/errors';
import { Rejected } from '../rejected.ts';

const MAX_ROWS = 100_000;
/** Below the client's own limit on a request, so that the answer says what happened. */
const MAX_SECONDS = 25;
const TIMEOUT_EXCEEDED = '159';
const MAX_BYTES = 256 * 1024 * 1024;

/** ClickHouse's own `JSON` format, as text. @throws Rejected when the query is not allowed or fails. */
export async function askSql(store: Store, query: string): Promise<string> {
  const checked = await selectOnly(query, {
    database: store.database,
    ast: (sql) => store.text(sql, 'TabSeparatedRaw').catch(engineError),
    tables: async () => {
      const rows = await store.query<{ name: string }>(
        'SELECT name FROM system.tables WHERE database = currentDatabase()',
      );
      return rows.map(({ name }) => name);
    },
  });
  if (!checked.ok) throw new Rejected('query_not_allowed', checked.detail);
  try {
    return await store.text(checked.sql, 'JSON', {
      max_result_rows: MAX_ROWS,
      max_result_bytes: MAX_BYTES,
      result_overflow_mode: 'throw',
      max_execution_time: MAX_SECONDS,
    });
  } catch (error) {
    if (error instanceof QueryRefused) throw new Rejected('query_failed', error.message, { cause: error });
    if (
      error instanceof Unavailable &&
      error.cause instanceof Error &&
      Reflect.get(error.cause, 'code') === TIMEOUT_EXCEEDED
    ) {
      throw new Rejected('query_failed', `the query took longer than ${MAX_SECONDS} s`, { cause: error });
    }
    throw error;
  }
}

/** The guard knows a query that does not parse by ClickHouse's own error. */
function engineError(error: unknown): never {
  throw error instanceof QueryRefused ? error.cause : error;
}
