/** The outermost middlewares: a request id, metrics, and every failure as a problem document (RFC 9457). */
import { randomUUID } from 'node:crypto';
import { RecordTooLarge } from '@questlog/runtime/log/log';
import { messageOf, Unavailable } from '@questlog/runtime/process/errors';
import type { Refusal } from '@questlog/runtime/process/listen';
import type { Logger } from '@questlog/runtime/process/logger';
import { problemOf, statusOf } from '@questlog/schemas/http/problem';
import type { Middleware, ParameterizedContext } from 'koa';
import type { IngestMetrics } from '../metrics.ts';
import { CutShort, Rejected } from '../rejected.ts';

const PROBLEM_TYPE = 'application/problem+json';
const REQUEST_ID = /^[\w.:-]{1,128}$/;

/**
 * @param headers of every answer
 * @param noteAnswer is told of each, with what it was refused for
 */
export function problems(
  logger: Logger,
  metrics: IngestMetrics,
  headers: Readonly<Record<string, string>> = {},
  noteAnswer?: (ctx: ParameterizedContext, rejected: Rejected | undefined) => void,
): Middleware {
  return async (ctx, next) => {
    const given = ctx.get('X-Request-Id');
    const requestId = REQUEST_ID.test(given) ? given : randomUUID();
    const stopTimer = metrics.requestSeconds.startTimer();
    ctx.set({ ...headers, 'X-Request-Id': requestId });
    let rejected: Rejected | undefined;
    try {
      await next();
    } catch (error) {
      rejected = rejectedFor(error, logger, requestId);
      answerProblem(ctx, rejected, requestId);
    }
    noteAnswer?.(ctx, rejected);
    const route = String(ctx['_matchedRoute'] ?? 'none');
    metrics.requests.inc({ route, method: ctx.method, status: ctx.status });
    stopTimer({ route });
  };
}

/** The caller's fault, a dependency's, or a bug of ours. Of a bug the caller learns only the request's id. */
function rejectedFor(error: unknown, logger: Logger, requestId: string): Rejected {
  if (error instanceof Rejected) return error;
  if (error instanceof RecordTooLarge)
    return new Rejected('event_too_large', error.message, { cause: error });
  if (error instanceof Unavailable) {
    const cause = error instanceof CutShort ? messageOf(error.cause) : error.message;
    logger.warn('request_unavailable', { requestId, cause });
    const headers = {
      'Retry-After': String(error.retryAfterS),
      ...(error instanceof CutShort ? { Location: `/v1/reports/${error.reportId}` } : {}),
    };
    return new Rejected('unavailable', unavailableDetail(error), { headers });
  }
  logger.error('request_failed', error, { requestId, bug: true });
  return new Rejected('internal', 'the cause is in the log under this request id');
}

/** Our own sentence; what a dependency said stays in the log. */
function unavailableDetail(error: Unavailable): string {
  return error.cause === undefined || error instanceof CutShort
    ? error.message
    : 'a dependency does not answer or takes no more; try again';
}

/** Where no request could be read, there is none that a middleware could answer. */
export function malformedRequest(isTooSlow: boolean, headers: Refusal['headers'] = {}): Refusal {
  const code = isTooSlow ? 'request_timeout' : 'invalid_request';
  const detail = 'the request is not valid HTTP, too slow, or its head is too large';
  const body = JSON.stringify(problemOf(code, detail, randomUUID()));
  return { status: statusOf(code), headers: { ...headers, 'Content-Type': PROBLEM_TYPE }, body };
}

function answerProblem(ctx: ParameterizedContext, rejected: Rejected, requestId: string): void {
  const problem = problemOf(rejected.code, rejected.message, requestId, rejected.errors);
  ctx.status = Number(problem['status']);
  ctx.set({ ...rejected.headers });
  ctx.body = JSON.stringify(problem);
  ctx.type = PROBLEM_TYPE;
}
