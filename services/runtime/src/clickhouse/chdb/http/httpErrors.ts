/** ClickHouse's errors as they look on the wire: the text, the code and the HTTP status that clients tell them by. */

import { messageOf } from '../../../process/errors.ts';

/** An error with ClickHouse's own number and name. */
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

export const exceptions = {
  syntax: (message: string) => new ClickHouseException(62, 'SYNTAX_ERROR', message),
  notImplemented: (message: string) => new ClickHouseException(48, 'NOT_IMPLEMENTED', message),
  unknownSetting: (name: string) =>
    new ClickHouseException(115, 'UNKNOWN_SETTING', `Unknown setting '${name}'.`),
  accessDenied: (message: string) => new ClickHouseException(497, 'ACCESS_DENIED', message),
  readonly: (message: string) => new ClickHouseException(164, 'READONLY', message),
  notFound: (path: string) =>
    new ClickHouseException(
      60,
      'UNKNOWN_TABLE',
      `There is no handle ${path}. Use / for queries and /ping for checks.`,
    ),
  badRequestParameter: (message: string) => new ClickHouseException(36, 'BAD_ARGUMENTS', message),
  tooManyQueries: (limit: number) =>
    new ClickHouseException(
      202,
      'TOO_MANY_SIMULTANEOUS_QUERIES',
      `Too many simultaneous queries. Maximum: ${limit}.`,
    ),
  queryTooLarge: (limitBytes: number) =>
    new ClickHouseException(91, 'QUERY_IS_TOO_LARGE', `The query is longer than ${limitBytes} bytes.`),
  insertTooLarge: (limitBytes: number) =>
    new ClickHouseException(
      91,
      'QUERY_IS_TOO_LARGE',
      `The data of one INSERT is larger than ${limitBytes} bytes; send it in several.`,
    ),
  resultTooLarge: (limitBytes: number) =>
    new ClickHouseException(
      396,
      'TOO_MANY_ROWS_OR_BYTES',
      `Limit for result exceeded, max bytes of its text: ${limitBytes}.`,
    ),
  cannotDecompress: (cause: unknown) =>
    new ClickHouseException(271, 'CANNOT_DECOMPRESS', `Cannot decompress the body: ${messageOf(cause)}.`, {
      cause,
    }),
  unknownCompression: (coding: string) =>
    new ClickHouseException(
      89,
      'UNKNOWN_COMPRESSION_METHOD',
      `Unknown compression method '${coding}'. The embedded ClickHouse takes gzip, deflate, br, zstd and none.`,
    ),
  cancelled: () => new ClickHouseException(394, 'QUERY_WAS_CANCELLED', 'Query was cancelled.'),
  shuttingDown: () => new ClickHouseException(236, 'ABORTED', 'The server is shutting down.'),
};

/** What the engine threw, as an exception with a number: it writes `Code: 60. DB::Exception: … (UNKNOWN_TABLE)`. */
export function fromEngine(error: unknown): ClickHouseException {
  if (error instanceof ClickHouseException) return error;
  const text = messageOf(error).trim();
  const found = /^Code: (\d+)\. DB::Exception: (.*) \(([A-Z0-9_]+)\)$/s.exec(text);
  if (found === null) return new ClickHouseException(1002, 'UNKNOWN_EXCEPTION', text, { cause: error });
  const [, code = '', message = '', type = ''] = found;
  return new ClickHouseException(Number(code), type, message, { cause: error });
}

/** The body of an error's answer. */
export function errorText(error: ClickHouseException, version: string): string {
  return `Code: ${error.code}. DB::Exception: ${error.message} (${error.type}) (version ${version} (official build))\n`;
}

/** The HTTP status of an error: ClickHouse's `exceptionCodeToHTTPStatus`; everything else is a 500. */
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
