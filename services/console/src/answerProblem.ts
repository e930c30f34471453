/** Sends a problem document (RFC 9457) as the response to a rejected request of the console. */
import { type ProblemCode, problemOf } from '@questlog/schemas/http/problem';
import type { Context } from 'koa';

export function answerProblem(
  ctx: Pick<Context, 'status' | 'body' | 'type' | 'response'>,
  code: ProblemCode,
  detail: string,
): void {
  const problem = problemOf(code, detail, ctx.response.get('X-Request-Id'));
  ctx.status = Number(problem['status']);
  ctx.body = JSON.stringify(problem);
  ctx.type = 'application/problem+json';
}
