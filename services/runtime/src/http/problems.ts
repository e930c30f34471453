/** Handles what all routes have in common: request ids, metrics, and problem documents (RFC 9457). */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, RequestListener } from 'node:http';
import { PROBLEM_TYPE, problemOf, statusOf } from '@questlog/schemas/http/problem';
import type { Middleware, ParameterizedContext } from 'koa';
import { RecordTooLarge } from '../log/log.ts';
import { messageOf, Unavailable } from '../process/errors.ts';
import { MAX_SMALL_CHUNKS, MEAN_CHUNK_BYTES } from '../process/listener/listen.ts';
import type { Rejection, RejectionReason } from '../process/listener/rejections.ts';
import type { Logger } from '../process/logger.ts';
import { yieldToEventLoop } from '../process/waiting.ts';
import type { UnauthenticatedLimit } from './limits/unauthenticated.ts';
import type { HttpMetrics } from './metrics.ts';
import { IncompleteReport, Rejected } from './rejected.ts';

const REQUEST_ID = /^[\w.:-]{1,128}$/;

export interface StartedRequest {
  readonly requestId: string;
  readonly startedMs: number;
}

type RequestMetrics = Pick<HttpMetrics, 'requests' | 'requestSeconds'>;

/** Runs after the response to a request is known. `rejected` is undefined if the request succeeded. */
export type OnAnswered = (ctx: ParameterizedContext, rejected: Rejected | undefined) => void;

export function problems(
  logger: Logger,
  metrics: RequestMetrics,
  headers: Readonly<Record<string, string>> = {},
  onAnswered: OnAnswered = () => undefined,
): Middleware {
  return async (ctx, next) => {
    const { requestId, startedMs } = startRequest(ctx.req);
    ctx.set({ ...headers, 'X-Request-Id': requestId });
    let rejected: Rejected | undefined;
    try {
      checkExpectation(ctx.get('Expect'));
      await next();
    } catch (error) {
      rejected = rejectedFor(error, logger, requestId);
      const { status, headers: problemHeaders, body } = problemAnswer(rejected, requestId);
      ctx.status = status;
      ctx.set({ ...problemHeaders });
      ctx.body = body;
      ctx.type = PROBLEM_TYPE;
    }
    if (await isBodyIncomplete(ctx.req)) ctx.set('Connection', 'close');
    const route: unknown = ctx['_matchedRoute'];
    onAnswered(ctx, rejected);
    recordRequest(metrics, { startedMs, method: ctx.method, status: ctx.status }, String(route ?? 'none'));
  };
}

/** True if the client has not sent the whole body. The server then closes the connection (RFC 9112, section 9.6). */
export async function isBodyIncomplete(request: IncomingMessage): Promise<boolean> {
  // Waits one turn of the event loop, because Node can still be parsing a body that has already arrived.
  if (!request.complete) await yieldToEventLoop();
  return !request.complete;
}

export function startRequest({ headers }: IncomingMessage): StartedRequest {
  const given = String(headers['x-request-id'] ?? '');
  const requestId = REQUEST_ID.test(given) ? given : randomUUID();
  return { requestId, startedMs: performance.now() };
}

export function recordRequest(
  { requests, requestSeconds }: RequestMetrics,
  { startedMs, method, status }: { startedMs: number; method: string; status: number },
  route: string,
): void {
  requests.inc({ route, method, status });
  requestSeconds.observeInTrace({ route }, (performance.now() - startedMs) / 1000);
}

/** Rejects every `Expect` header except `100-continue`, because RFC 9110 (section 10.1.1) defines no other value. */
function checkExpectation(expected: string): void {
  if (expected === '' || expected.toLowerCase() === '100-continue') return;
  throw new Rejected('expectation_failed', 'Expect: only 100-continue is supported');
}

/** Converts an error to a rejection. If the error is a bug, logs its cause and hides the cause from the client. */
export function rejectedFor(error: unknown, logger: Logger, requestId: string): Rejected {
  if (error instanceof Rejected) return error;
  if (error instanceof RecordTooLarge)
    return new Rejected('event_too_large', error.message, { cause: error });
  if (error instanceof Unavailable) {
    const cause = error instanceof IncompleteReport ? messageOf(error.cause) : error.message;
    logger.warn('request_unavailable', { requestId, cause });
    const headers = {
      'Retry-After': String(error.retryAfterS),
      ...(error instanceof IncompleteReport ? { Location: `/v1/reports/${error.reportId}` } : {}),
    };
    return new Rejected('unavailable', unavailableDetail(error), { headers });
  }
  logger.error('request_failed', error, { requestId, bug: true });
  return new Rejected('internal', 'the cause is in the log under this request id');
}

/** Returns the error text of a 503 for the client. The dependency's own message is only logged. */
function unavailableDetail(error: Unavailable): string {
  return error.cause === undefined || error instanceof IncompleteReport
    ? error.message
    : 'a dependency is unavailable; try again';
}

export function malformedRequest(why: RejectionReason, headers: Rejection['headers'] = {}): Rejection {
  const code = why === 'tooSlow' ? 'request_timeout' : 'invalid_request';
  const body = JSON.stringify(problemOf(code, MALFORMED_DETAILS[why], randomUUID()));
  return { status: statusOf(code), headers: { ...headers, 'Content-Type': PROBLEM_TYPE }, body };
}

const MALFORMED_DETAILS: Readonly<Record<RejectionReason, string>> = {
  malformed: 'the request is not valid HTTP, or its head is too large',
  tooSlow: 'the request took too long to arrive',
  smallChunks: `the body has too many small chunks: ${MAX_SMALL_CHUNKS} are allowed, and one more per ${MEAN_CHUNK_BYTES} bytes`,
};

export function problemAnswer(
  { code, message, errors, headers }: Rejected,
  requestId: string,
): { readonly status: number; readonly headers: Rejected['headers']; readonly body: string } {
  return {
    status: statusOf(code),
    headers,
    body: JSON.stringify(problemOf(code, message, requestId, errors)),
  };
}

/** Returns a handler that rejects the requests of blocked client addresses before any route runs. */
export function rejectLimitedAddresses(
  handler: RequestListener,
  unauthenticated: Pick<UnauthenticatedLimit, 'rejectionOf'>,
  headersFor: (request: IncomingMessage) => Rejection['headers'] = () => ({}),
): RequestListener {
  return (request, response) => {
    const rejected = unauthenticated.rejectionOf(request);
    if (rejected === undefined) return handler(request, response);
    const { requestId } = startRequest(request);
    const { status, headers, body } = problemAnswer(rejected, requestId);
    response.writeHead(status, {
      ...{ ...headersFor(request), ...headers, 'X-Request-Id': requestId },
      ...{ 'Content-Type': PROBLEM_TYPE, 'Content-Length': Buffer.byteLength(body) },
    });
    response.end(body);
  };
}
