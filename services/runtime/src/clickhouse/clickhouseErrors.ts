/** Converts errors of ClickHouse to errors that tell a caller whether a retry can succeed. */
import { ClickHouseError } from '@clickhouse/client';
import { Invalid, Unavailable } from '../process/errors.ts';

export const UNKNOWN_SETTING = '115';
export const UNKNOWN_TABLE = '60';
export const UNKNOWN_IDENTIFIER = '47';
export const TABLE_ALREADY_EXISTS = '57';
export const REPLICA_ALREADY_EXISTS = '253';

/** ClickHouse's error codes for invalid data (src/Common/ErrorCodes.cpp). An insert that fails with another code is retried. */
const DATA_ERRORS = new Set([
  '6', // CANNOT_PARSE_TEXT
  '26', // CANNOT_PARSE_QUOTED_STRING
  '27', // CANNOT_PARSE_INPUT_ASSERTION_FAILED
  '32', // ATTEMPT_TO_READ_AFTER_EOF
  '33', // CANNOT_READ_ALL_DATA
  '38', // CANNOT_PARSE_DATE
  '41', // CANNOT_PARSE_DATETIME
  '53', // TYPE_MISMATCH
  '69', // ARGUMENT_OUT_OF_BOUND
  '72', // CANNOT_PARSE_NUMBER
  '117', // INCORRECT_DATA
  '131', // TOO_LARGE_STRING_SIZE
  '321', // VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE
  '376', // CANNOT_PARSE_UUID
  '407', // DECIMAL_OVERFLOW
  '469', // VIOLATED_CONSTRAINT
]);

/** Error for a query that ClickHouse rejected. A retry of the query would give the same result. */
export class QueryRejected extends Error {
  override readonly name = 'QueryRejected';
  readonly code: string;

  constructor(error: ClickHouseError) {
    super(error.message, { cause: error });
    this.code = error.code;
  }
}

/** Returns the error code of ClickHouse. Undefined if the error has another cause. */
export function codeOf(error: unknown): string | undefined {
  const cause = error instanceof Error ? error.cause : undefined;
  return cause instanceof ClickHouseError ? cause.code : undefined;
}

/** Error codes of failures for which a retry of the same query can succeed. */
const TEMPORARY_ERRORS = new Set([
  '75', // CANNOT_WRITE_TO_FILE_DESCRIPTOR, if the disk is full
  '173', // CANNOT_ALLOCATE_MEMORY
  '201', // QUOTA_EXCEEDED, shared by all queries of an account
  '202', // TOO_MANY_SIMULTANEOUS_QUERIES
  '236', // ABORTED, because the server stops
  '241', // MEMORY_LIMIT_EXCEEDED, unless it is the query's own limit
  '243', // NOT_ENOUGH_SPACE
  '394', // QUERY_WAS_CANCELLED
  '439', // CANNOT_SCHEDULE_TASK
  '745', // SERVER_OVERLOADED
  // Errors of queries that read other nodes
  '95', // CANNOT_READ_FROM_SOCKET
  '96', // CANNOT_WRITE_TO_SOCKET
  '100', // UNKNOWN_PACKET_FROM_SERVER
  '102', // UNEXPECTED_PACKET_FROM_SERVER
  '198', // DNS_ERROR
  '209', // SOCKET_TIMEOUT
  '210', // NETWORK_ERROR
  '279', // ALL_CONNECTION_TRIES_FAILED
  '369', // ALL_REPLICAS_ARE_STALE
  '519', // NO_REMOTE_SHARD_AVAILABLE
]);

/** Matches the error for a query that exceeds its own memory limit. ClickHouse 24.11 changed the text, so both texts match. */
const OWN_MEMORY_LIMIT = /Query memory limit exceeded|Memory limit \(for query\) exceeded/;

/** Error codes that show that the query or its tables are wrong. A retry of the same query fails again. */
const QUERY_ERRORS = new Set([
  '36', // BAD_ARGUMENTS
  '42', // NUMBER_OF_ARGUMENTS_DOESNT_MATCH
  '43', // ILLEGAL_TYPE_OF_ARGUMENT
  '46', // UNKNOWN_FUNCTION
  UNKNOWN_IDENTIFIER,
  '48', // NOT_IMPLEMENTED
  UNKNOWN_TABLE,
  '62', // SYNTAX_ERROR
  UNKNOWN_SETTING,
  '386', // NO_COMMON_TYPE
  '396', // TOO_MANY_ROWS_OR_BYTES
  '457', // BAD_QUERY_PARAMETER
]);

/** Returns `Invalid` if ClickHouse rejects the rows. An unknown error becomes `Unavailable`, so that the caller retries. */
export function insertFailure(error: ClickHouseError): Error {
  if (DATA_ERRORS.has(error.code))
    return new Invalid(`ClickHouse rejects the data: ${error.message}`, { cause: error });
  return new Unavailable(`the insert into ClickHouse failed: ${error.message}`, { cause: error });
}

/**
 * ATTEMPT_TO_READ_AFTER_EOF and CANNOT_READ_ALL_DATA. A query gets these codes if another node ends its connection in the middle of
 * the query, or if a data part is damaged until ClickHouse fetches the part again.
 */
const INCOMPLETE_READ_ERRORS = new Set(['32', '33']);
/** Matches errors of reads from a data part or from another node. Errors of a function that parses a text do not match. */
const READ_BY_CLICKHOUSE = /while receiving packet from |while reading column /;

export function queryFailure(error: ClickHouseError): Error {
  const isRejected = QUERY_ERRORS.has(error.code) || DATA_ERRORS.has(error.code);
  if (isRejected && !INCOMPLETE_READ_ERRORS.has(error.code)) return new QueryRejected(error);
  return new Unavailable(`ClickHouse: ${error.message}`, { cause: error });
}

export function callerQueryFailure(error: ClickHouseError): Error {
  const isTemporary = TEMPORARY_ERRORS.has(error.code) && !OWN_MEMORY_LIMIT.test(error.message);
  const isIncompleteRead = INCOMPLETE_READ_ERRORS.has(error.code) && READ_BY_CLICKHOUSE.test(error.message);
  return isTemporary || isIncompleteRead ? queryFailure(error) : new QueryRejected(error);
}
