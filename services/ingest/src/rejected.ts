/** A request that the caller must change: becomes a problem document of its code (`schemas/http/problem`). */
import type { ElementProblem, ProblemCode } from '@questlog/schemas/http/problem';

export class Rejected extends Error {
  override readonly name = 'Rejected';
  readonly code: ProblemCode;
  readonly errors: readonly ElementProblem[] | undefined;
  /** Response headers that the status asks for. */
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    code: ProblemCode,
    detail: string,
    options: { errors?: readonly ElementProblem[]; headers?: Record<string, string> } & ErrorOptions = {},
  ) {
    super(detail, options);
    this.code = code;
    this.errors = options.errors;
    this.headers = options.headers ?? {};
  }
}
