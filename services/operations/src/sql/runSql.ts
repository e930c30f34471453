/** Serves POST /admin/sql: runs an operator's query with the permissions of the read-only ClickHouse account. */

import { QueryRejected } from '@questlog/runtime/clickhouse/clickhouseErrors';
import type { AddressedStore, RawResult } from '@questlog/runtime/clickhouse/store';
import { Rejected } from '@questlog/runtime/http/rejected';
import { Unavailable } from '@questlog/runtime/process/errors';
import { SQL_LIMITS, type SqlInput } from '@questlog/schemas/http/admin';

const ADVICE: Readonly<Record<string, string>> = {
  158: ' Filter, or aggregate less.', // TOO_MANY_ROWS
  159: ' Filter, or aggregate less.', // TIMEOUT_EXCEEDED
  160: ' Filter, or aggregate less.', // TOO_SLOW
  307: ' Filter, or aggregate less.', // TOO_MANY_BYTES
};
const MEMORY_LIMIT_EXCEEDED = '241';
const TOO_MANY_ROWS_OR_BYTES = '396';

/** ClickHouse error codes for missing permissions and for a text that is not a single statement. */
const NOT_ALLOWED = new Set([
  '48', // NOT_IMPLEMENTED
  '62', // SYNTAX_ERROR
  '81', // UNKNOWN_DATABASE: same code for a database without a grant
  '164', // READONLY
  '452', // SETTING_CONSTRAINT_VIOLATION
  '497', // ACCESS_DENIED
]);

/**
 * Runs a query. The response has ClickHouse's `JSON` format unless the query has a FORMAT clause.
 * @throws Rejected if ClickHouse rejects the query, or if the client has disconnected
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
    // The query failed because the client has disconnected. ClickHouse has no outage, so the status is not 503.
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

/** True if the error comes from ClickHouse. Only ClickHouse's errors have numeric codes, and connection errors do not. */
function isClickHouseError(cause: unknown): boolean {
  return cause instanceof Error && /^\d+$/.test(String(Reflect.get(cause, 'code')));
}

function adviceFor({ code, message }: QueryRejected, reader: AddressedStore): string {
  if (code === TOO_MANY_ROWS_OR_BYTES) {
    const directAccess = `ClickHouse itself has no row limit: connect to ${reader.url}, database ${reader.database}, as user ${reader.username}. The command questlog export writes all rows of a project to files.`;
    return ` Reduce the result with LIMIT or GROUP BY. ${/max rows/.test(message) ? directAccess : ''}`.trimEnd();
  }
  if (code !== MEMORY_LIMIT_EXCEEDED) return ADVICE[code] ?? '';
  const [, amount, unit] = /maximum: ([\d.]+) (\w+)/.exec(message) ?? [];
  const limit = amount === undefined ? '' : ` is ${Number(amount)} ${unit}`;
  return ` The query’s memory limit${limit}: select fewer columns, or filter.`;
}

/** Returns the text of the query at the position of an error. The ClickHouse client removes this text from error messages. */
function textAtPosition(message: string, query: string): string {
  const [, position] = /failed at position (\d+) $/.exec(message) ?? [];
  return position === undefined ? '' : `: ${query.slice(Number(position) - 1).slice(0, EXCERPT_CHARACTERS)}`;
}

const EXCERPT_CHARACTERS = 60;

const READER_NOT_CONFIGURED =
  'CLICKHOUSE_READER_URL is not set. It must be the address of ClickHouse with a read-only account. See docs/operating/kafka.md';
