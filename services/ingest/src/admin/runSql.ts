/** POST /admin/sql: runs a query of an operator. ClickHouse decides what the read-only account may read. */

import { type AddressedStore, QueryRejected, type RawResult } from '@questlog/runtime/clickhouse/store';
import { Unavailable } from '@questlog/runtime/process/errors';
import type { SqlInput } from '@questlog/schemas/http/admin';
import { Rejected } from '../rejected.ts';

export const SQL_LIMITS = {
  rows: 100_000,
  /** Time limit of a query in seconds, shorter than the timeout of the client. Therefore the response states the cause. */
  seconds: 25,
  /** Maximum size of a result in bytes. Limits the size that ClickHouse counts, and the size of the response text. */
  bytes: 256 * 1024 * 1024,
  /** Maximum number of queries per process that run or wait for a connection. More queries would wait for minutes. */
  maxConcurrent: 32,
} as const;
/** Advice for queries that exceed a limit, by the error code of ClickHouse. */
const ADVICE: Readonly<Record<string, string>> = {
  158: ' Filter, or aggregate less.', // TOO_MANY_ROWS
  159: ' Filter, or aggregate less.', // TIMEOUT_EXCEEDED
  160: ' Filter, or aggregate less.', // TOO_SLOW
  307: ' Filter, or aggregate less.', // TOO_MANY_BYTES
};
const MEMORY_LIMIT_EXCEEDED = '241';
const TOO_MANY_ROWS_OR_BYTES = '396';

/** Error codes of ClickHouse for missing permissions and for text that is not a single statement. */
const NOT_ALLOWED = new Set([
  '48', // NOT_IMPLEMENTED
  '62', // SYNTAX_ERROR
  '81', // UNKNOWN_DATABASE: same code for a database without a grant
  '164', // READONLY
  '452', // SETTING_CONSTRAINT_VIOLATION
  '497', // ACCESS_DENIED
]);

/**
 * Runs a query. The response is in ClickHouse's `JSON` format unless the query has a FORMAT clause.
 * @param disconnected aborts when the client disconnects.
 * @throws Rejected if the query is not allowed or fails, or if the client has disconnected.
 */
export async function runSql(
  reader: AddressedStore | undefined,
  { query, parameters }: SqlInput,
  disconnected: AbortSignal,
): Promise<RawResult> {
  if (reader === undefined) throw new Rejected('query_not_allowed', READER_NOT_CONFIGURED);
  try {
    const settings = {
      max_result_rows: SQL_LIMITS.rows,
      max_result_bytes: SQL_LIMITS.bytes,
      result_overflow_mode: 'throw',
      max_execution_time: SQL_LIMITS.seconds,
    };
    return await reader.queryRaw(query, settings, SQL_LIMITS.bytes, parameters, disconnected);
  } catch (error) {
    // The client caused this error by disconnecting, so the error must not count as a 503 of ClickHouse.
    if (disconnected.aborted)
      throw new Rejected('query_failed', 'the client has disconnected', { cause: error });
    if (error instanceof QueryRejected) {
      const code = NOT_ALLOWED.has(error.code) ? 'query_not_allowed' : 'query_failed';
      const text = `${error.message.trim()}${textAtPosition(error.message, query)}`;
      throw new Rejected(code, `${text}${adviceFor(error, reader)}`, { cause: error });
    }
    if (error instanceof Unavailable && isClickHouseError(error.cause)) {
      const headers = { 'Retry-After': String(error.retryAfterS) };
      throw new Rejected('unavailable', error.message.trim(), { cause: error, headers });
    }
    throw error;
  }
}

/**
 * True if ClickHouse reported the error. Then the code is a number. A failed connection has a name as code, such as
 * ECONNREFUSED.
 */
function isClickHouseError(cause: unknown): boolean {
  return cause instanceof Error && /^\d+$/.test(String(Reflect.get(cause, 'code')));
}

function adviceFor({ code, message }: QueryRejected, reader: AddressedStore): string {
  if (code === TOO_MANY_ROWS_OR_BYTES) {
    const directAccess = `ClickHouse itself has no row limit: connect to ${reader.url}, database ${reader.database}, as user ${reader.username}.`;
    return ` Reduce the result with LIMIT or GROUP BY. ${/max rows/.test(message) ? directAccess : ''}`.trimEnd();
  }
  if (code !== MEMORY_LIMIT_EXCEEDED) return ADVICE[code] ?? '';
  const [, amount, unit] = /maximum: ([\d.]+) (\w+)/.exec(message) ?? [];
  const limit = amount === undefined ? '' : ` is ${Number(amount)} ${unit}`;
  return ` The query’s memory limit${limit}: select fewer columns, or filter.`;
}

/**
 * Returns the start of the query at the position at which the message ends, or an empty text. ClickHouse names the word at that
 * position, but its client truncates the message before a word in capitals.
 */
function textAtPosition(message: string, query: string): string {
  const [, position] = /failed at position (\d+) $/.exec(message) ?? [];
  return position === undefined ? '' : `: ${query.slice(Number(position) - 1).slice(0, EXCERPT_CHARACTERS)}`;
}

const EXCERPT_CHARACTERS = 60;

const READER_NOT_CONFIGURED =
  'CLICKHOUSE_READER_URL is not set. It must be the address of ClickHouse with a read-only account. See docs/operating/kafka.md';
