/** ClickHouse's errors in HTTP responses. Clients rely on the text, the code, and the status of these errors. */

import { messageOf } from '../../../process/errors.ts';

export class ClickHouseException extends Error {
  override readonly name = 'ClickHouseException';
  readonly code: number;
  readonly type: string;

  constructor(code: number, type: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.type = type;
  }
}

const exception = (code: number, type: string) => (message: string, options?: ErrorOptions) =>
  new ClickHouseException(code, type, message, options);

export const exceptions = {
  badArguments: exception(36, 'BAD_ARGUMENTS'),
  notImplemented: exception(48, 'NOT_IMPLEMENTED'),
  unknownTable: exception(60, 'UNKNOWN_TABLE'),
  syntax: exception(62, 'SYNTAX_ERROR'),
  unknownFormat: exception(73, 'UNKNOWN_FORMAT'),
  unknownCompression: exception(89, 'UNKNOWN_COMPRESSION_METHOD'),
  tooLarge: exception(91, 'QUERY_IS_TOO_LARGE'),
  unknownSetting: exception(115, 'UNKNOWN_SETTING'),
  readonly: exception(164, 'READONLY'),
  requiredPassword: exception(194, 'REQUIRED_PASSWORD'),
  quotaExceeded: exception(201, 'QUOTA_EXCEEDED'),
  tooManyQueries: exception(202, 'TOO_MANY_SIMULTANEOUS_QUERIES'),
  notEnoughSpace: exception(243, 'NOT_ENOUGH_SPACE'),
  cannotDecompress: exception(271, 'CANNOT_DECOMPRESS'),
  cancelled: () => new ClickHouseException(394, 'QUERY_WAS_CANCELLED', 'Query was cancelled.'),
  resultTooLarge: exception(396, 'TOO_MANY_ROWS_OR_BYTES'),
  accessDenied: exception(497, 'ACCESS_DENIED'),
  authenticationFailed: exception(516, 'AUTHENTICATION_FAILED'),
};

export function fromEngine(error: unknown): ClickHouseException {
  if (error instanceof ClickHouseException) return error;
  const text = messageOf(error).trim();
  const found = /^Code: (\d+)\. DB::Exception: (.*) \(([A-Z0-9_]+)\)$/s.exec(text);
  if (found === null) return new ClickHouseException(1002, 'UNKNOWN_EXCEPTION', text, { cause: error });
  const [, code = '', message = '', type = ''] = found;
  return new ClickHouseException(Number(code), type, message, { cause: error });
}

export function errorText(error: ClickHouseException, version: string): string {
  return `Code: ${error.code}. DB::Exception: ${error.message} (${error.type}) (version ${version} (official build))\n`;
}

/** Returns the HTTP status for an error code, as ClickHouse's `exceptionCodeToHTTPStatus` does. */
export function httpStatusOf(code: number): number {
  return STATUS_BY_CODE.get(code) ?? 500;
}

const CODES_BY_STATUS: readonly (readonly [status: number, codes: readonly number[]])[] = [
  [
    400,
    [6, 8, 15, 25, 26, 27, 36, 38, 41, 44, 53, 62, 69, 72, 117, 167, 168, 223, 376, 427, 441, 452, 675, 676],
  ],
  [401, [194]],
  [403, [164, 192, 193, 497, 516]],
  [404, [46, 47, 50, 56, 60, 63, 73, 78, 81, 115, 336, 511]],
  [408, [159]],
  [411, [381]],
  [413, [91]],
  [501, [48]],
  [503, [76, 202, 209, 236, 439]],
];

const STATUS_BY_CODE = new Map(
  CODES_BY_STATUS.flatMap(([status, codes]) => codes.map((code): [number, number] => [code, status])),
);
