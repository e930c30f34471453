/** POST /admin/sql: an operator's question to ClickHouse, by an account that only reads; what it may read, ClickHouse decides. */

import { type AddressedStore, QueryRejected, type RawResult } from '@questlog/runtime/clickhouse/store';
import { Unavailable } from '@questlog/runtime/process/errors';
import type { SqlInput } from '@questlog/schemas/http/admin';
import { Rejected } from '../rejected.ts';

export const SQL_LIMITS = {
  rows: 100_000,
  /** Below the client's own limit on a request, so that the answer says what happened. */
  seconds: 25,
  /** Of the result as ClickHouse counts it, and of its text as it comes. */
  bytes: 256 * 1024 * 1024,
  /** Of a process, running or waiting for a connection: whoever comes then would wait for minutes. */
  maxConcurrent: 32,
} as const;
/** Advice for a query that hits one of its own limits, by ClickHouse's error code. */
const ADVICE: Readonly<Record<string, string>> = {
  158: ' Filter, or aggregate less.', // TOO_MANY_ROWS
  159: ' Filter, or aggregate less.', // TIMEOUT_EXCEEDED
  160: ' Filter, or aggregate less.', // TOO_SLOW
  307: ' Filter, or aggregate less.', // TOO_MANY_BYTES
};
const MEMORY_LIMIT_EXCEEDED = '241';
const TOO_MANY_ROWS_OR_BYTES = '396';

/** ClickHouse's codes for what an account may not do, and for what is no single statement. */
const NOT_ALLOWED = new Set([
  '48', // NOT_IMPLEMENTED
  '62', // SYNTAX_ERROR
  '81', // UNKNOWN_DATABASE: one without a grant is as unknown
  '164', // READONLY
  '452', // SETTING_CONSTRAINT_VIOLATION
  '497', // ACCESS_DENIED
]);

/**
 * In ClickHouse's own `JSON` format unless the query says another.
 * @param disconnected aborts when nobody waits for the answer any more.
 * @throws Rejected when it is not allowed, fails, or nobody waits.
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
    // No failure of ClickHouse, which a 503 would count as.
    if (disconnected.aborted) throw new Rejected('query_failed', 'its asker has left', { cause: error });
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

/** True if the error has a numeric code of ClickHouse. A failed connection has a name instead, such as ECONNREFUSED. */
function isClickHouseError(cause: unknown): boolean {
  return cause instanceof Error && /^\d+$/.test(String(Reflect.get(cause, 'code')));
}

function adviceFor({ code, message }: QueryRejected, reader: AddressedStore): string {
  if (code === TOO_MANY_ROWS_OR_BYTES) {
    const directAccess = `ClickHouse itself has no limit of rows: ask it as ${reader.username} at ${reader.url}, database ${reader.database}.`;
    return ` Ask for fewer: a LIMIT, or a GROUP BY. ${/max rows/.test(message) ? directAccess : ''}`.trimEnd();
  }
  if (code !== MEMORY_LIMIT_EXCEEDED) return ADVICE[code] ?? '';
  const [, amount, unit] = /maximum: ([\d.]+) (\w+)/.exec(message) ?? [];
  const limit = amount === undefined ? '' : ` is ${Number(amount)} ${unit}`;
  return ` The query’s memory limit${limit}: select fewer columns, or filter.`;
}

/** ClickHouse names the word behind the position, and its client cuts the message there if that is in capitals. */
function textAtPosition(message: string, query: string): string {
  const [, position] = /failed at position (\d+) $/.exec(message) ?? [];
  return position === undefined ? '' : `: ${query.slice(Number(position) - 1).slice(0, EXCERPT_CHARACTERS)}`;
}

const EXCERPT_CHARACTERS = 60;

const READER_NOT_CONFIGURED =
  'CLICKHOUSE_READER_URL is not set: it names ClickHouse with an account that only reads; docs/operating/kafka.md says how to make one';
