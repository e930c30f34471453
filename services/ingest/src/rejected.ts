/** A request that the caller must change: becomes a problem document of its code (`schemas/http/problem`). */

import { Unavailable } from '@questlog/runtime/process/errors';
import type { ElementProblem, ProblemCode } from '@questlog/schemas/http/problem';
import { canonicalUuid } from '@questlog/schemas/uuid';

export class Rejected extends Error {
  override readonly name = 'Rejected';
  readonly code: ProblemCode;
  readonly errors: readonly ElementProblem[] | undefined;
  /** Offset of what is wrong in the body; 0 for all of it. */
  readonly failedAt: number;
  /** Response headers that the status asks for. */
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
    // Nobody reads the stack of a refusal. Taking it was a tenth of a refusal's cost, and its frames held the whole request.
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

/**
 * A bug report whose record is in the log while some of its events are not, or that nobody here has read back yet. The
 * answer says how it becomes whole.
 */
export class IncompleteReport extends Unavailable {
  readonly reportId: string;

  constructor(reportId: string, cause: Unavailable, what = 'not all of its events could be stored') {
    super(
      `report ${reportId} exists, but ${what}; the same request completes it, with "id": "${reportId}" where it has no clientRequestId`,
      {
        cause,
        retryAfterS: cause.retryAfterS,
      },
    );
    this.reportId = reportId;
  }
}

/** In lower case. @throws Rejected `not_found`. */
export function pathUuid(text: string): string {
  const id = canonicalUuid(text);
  if (id === undefined) throw new Rejected('not_found', 'the id in the path is not a UUID');
  return id;
}
