/**
 * Errors of requests. `Rejected` is a fault that the caller must fix. The response is a problem document with the code of the
 * fault.
 */

import { Unavailable } from '@questlog/runtime/process/errors';
import type { ElementProblem, ProblemCode } from '@questlog/schemas/http/problem';
import { canonicalUuid } from '@questlog/schemas/uuid';

export class Rejected extends Error {
  override readonly name = 'Rejected';
  readonly code: ProblemCode;
  readonly errors: readonly ElementProblem[] | undefined;
  /** Offset of the fault in the body. 0 if the fault concerns the whole body. */
  readonly failedAt: number;
  /** Response headers that the status requires. */
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    code: ProblemCode,
    detail: string,
    options: {
      errors?: readonly ElementProblem[];
      failedAt?: number;
      headers?: Record<string, string>;
    } & ErrorOptions = {},
  ) {
    // Creates no stack trace, because no code reads it. A stack trace took 10 % of a rejection's time and kept the request in
    // memory.
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(detail, options);
    Error.stackTraceLimit = stackTraceLimit;
    this.code = code;
    this.errors = options.errors;
    this.failedAt = options.failedAt ?? 0;
    this.headers = options.headers ?? {};
  }
}

/** The report is in the log. Some of its events are not stored, or the report could not be read back. */
export class IncompleteReport extends Unavailable {
  readonly reportId: string;

  constructor(reportId: string, cause: Unavailable, what = 'not all of its events could be stored') {
    super(
      `report ${reportId} exists, but ${what}. Send the same request again to complete it. If the request has no clientRequestId, add "id": "${reportId}"`,
      {
        cause,
        retryAfterS: cause.retryAfterS,
      },
    );
    this.reportId = reportId;
  }
}

/** Returns the UUID in lower case. @throws Rejected `not_found` if the text is not a UUID. */
export function pathUuid(text: string): string {
  const id = canonicalUuid(text);
  if (id === undefined) throw new Rejected('not_found', 'the id in the path is not a UUID');
  return id;
}
