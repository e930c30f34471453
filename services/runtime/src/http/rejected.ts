/** Defines the errors of requests. A `Rejected` means that the client made a mistake. */

import type { ElementProblem, ProblemCode } from '@questlog/schemas/http/problem';
import { canonicalUuid } from '@questlog/schemas/uuid';
import { Unavailable } from '../process/errors.ts';

export class Rejected extends Error {
  override readonly name = 'Rejected';
  readonly code: ProblemCode;
  readonly errors: readonly ElementProblem[] | undefined;
  /** Position of the error in the request body. The position is 0 if the error concerns the whole body. */
  readonly failedAt: number;
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
    // Creates no stack trace, because a stack trace took 10 % of the time of a rejection and kept the request in memory.
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

/** Error for a report that is in the log but cannot be returned yet. The client must send its request again. */
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
