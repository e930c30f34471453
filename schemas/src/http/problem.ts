/**
 * Problem details (RFC 9457) and the closed list of problem codes. A code always has the same meaning and the same `title`. The
 * `detail` describes one occurrence of the problem and never contains parts of the request body.
 */
import Type, { type Static } from 'typebox';

export const PROBLEM_TYPE = 'application/problem+json';

export const PROBLEMS = {
  invalid_json: [400, 'The body is not valid JSON'],
  invalid_utf8: [400, 'The body is not valid UTF-8'],
  invalid_encoding: [400, 'The body cannot be decoded with its Content-Encoding'],
  invalid_body: [400, 'The body is not an object or an array of objects'],
  empty_batch: [400, 'The array is empty'],
  empty_report: [400, 'The report names neither a session nor an event'],
  invalid_elements: [400, 'One or more elements are not valid'],
  invalid_idempotency_key: [400, 'The Idempotency-Key is not a UUIDv7'],
  invalid_request: [400, 'The request is not valid'],
  field_required: [400, 'A required field is missing'],
  field_type: [400, 'A field has the wrong type'],
  field_invalid: [400, 'A field has a value that is not allowed'],
  field_repeated: [400, 'A field occurs more than once'],
  field_unknown: [400, 'The field is unknown'],
  invalid_uuid: [400, 'The value is not a UUID'],
  invalid_timestamp: [400, 'The value is not an ISO 8601 timestamp'],
  timestamp_out_of_range: [400, 'The timestamp is outside 1900 to 2299'],
  nested_too_deep: [400, 'The value is nested too deep'],
  lone_surrogate: [400, 'The string contains a lone surrogate'],
  incomplete_upload: [400, 'The file has fewer bytes than announced'],
  unauthorized: [401, 'No valid access token'],
  forbidden: [403, 'The access token lacks a scope'],
  suspended: [403, 'The project or its tenant is suspended'],
  build_not_allowed: [403, 'The access token does not allow this build'],
  switched_off: [403, 'An operator has switched off these events'],
  invalid_upload_address: [403, 'The upload address is not valid or has expired'],
  not_found: [404, 'Not found'],
  unknown_upload: [404, 'The file does not exist, or its bytes were not uploaded'],
  unknown_session: [404, 'The session does not exist'],
  method_not_allowed: [405, 'The method is not allowed here'],
  request_timeout: [408, 'The request did not arrive in time'],
  conflict: [409, 'The id is already used with other content'],
  already_running: [409, 'Another run is in progress'],
  already_decided: [409, 'The operation was already done'],
  precondition_failed: [412, 'The object has changed since it was read'],
  body_too_large: [413, 'The body is too large'],
  batch_too_large: [413, 'The array has too many elements'],
  field_too_large: [413, 'A field is too large'],
  event_too_large: [413, 'An event is too large'],
  upload_too_large: [413, 'The file is too large'],
  unsupported_file_type: [415, 'The file type is not supported'],
  unsupported_media_type: [415, 'The content type is not application/json'],
  unsupported_encoding: [415, 'The content encoding is not supported'],
  expectation_failed: [417, 'The Expect header is not supported'],
  misdirected_request: [421, 'The listener does not answer for this host'],
  idempotency_key_reused: [422, 'The Idempotency-Key was used with another body'],
  not_replayable: [422, 'The dead letter cannot be replayed'],
  rate_limited: [429, 'A rate limit is exceeded'],
  query_not_allowed: [400, 'The query is not allowed'],
  query_failed: [400, 'The query failed'],
  internal: [500, 'The server has an internal error'],
  uploads_not_set_up: [501, 'Uploads are not set up'],
  backups_not_here: [501, 'Backups are available only with embedded engines'],
  readers_not_here: [501, 'This ClickHouse cannot have accounts of studios'],
  unavailable: [503, 'The service is temporarily unavailable'],
} as const satisfies Record<string, readonly [status: number, title: string]>;

export type ProblemCode = keyof typeof PROBLEMS;

export interface ElementProblem {
  readonly index: number;
  /** JSON pointer (RFC 6901) to the invalid field of the event or report. */
  readonly pointer: string;
  readonly code: ProblemCode;
  readonly detail: string;
}

export const Problem = Type.Object({
  type: Type.String({ description: 'A URI reference that names the code.' }),
  title: Type.String(),
  status: Type.Integer(),
  code: Type.Enum(Object.keys(PROBLEMS)),
  detail: Type.String(),
  instance: Type.String({ description: 'Contains the request id, which is also in `X-Request-Id`.' }),
  message: Type.String({ description: 'The same as `detail`, for clients that show `message`.' }),
  error: Type.String({ description: 'The same as `title`, for clients that show `error`.' }),
  errors: Type.Optional(
    Type.Array(
      Type.Object({
        index: Type.Integer({ minimum: 0 }),
        pointer: Type.String(),
        code: Type.String(),
        detail: Type.String(),
      }),
    ),
  ),
});

export type Problem = Static<typeof Problem>;

export function statusOf(code: ProblemCode): number {
  return PROBLEMS[code][0];
}

export function problemOf(
  code: ProblemCode,
  detail: string,
  requestId: string,
  errors?: readonly ElementProblem[],
): Record<string, unknown> {
  const [status, title] = PROBLEMS[code];
  const problem = {
    type: `urn:questlog:problem:${code}`,
    title,
    status,
    code,
    detail,
    instance: `urn:questlog:request:${requestId}`,
    message: detail,
    error: title,
  };
  return errors === undefined ? problem : { ...problem, errors };
}
