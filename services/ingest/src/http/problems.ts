/** Handles what all routes have in common: request ids, metrics, problem documents (RFC 9457), and rejection counts. */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, RequestListener } from 'node:http';
import type { Principal } from '@questlog/runtime/directory/directory';
import { RecordTooLarge } from '@questlog/runtime/log/log';
import { messageOf, Unavailable } from '@questlog/runtime/process/errors';
import { MAX_SMALL_CHUNKS, MEAN_CHUNK_BYTES } from '@questlog/runtime/process/listener/listen';
import type { Rejection, RejectionReason } from '@questlog/runtime/process/listener/rejections';
import type { Logger } from '@questlog/runtime/process/logger';
import { yieldToEventLoop } from '@questlog/runtime/process/waiting';
import { type ElementProblem, problemOf, statusOf } from '@questlog/schemas/http/problem';
import type { Middleware, ParameterizedContext } from 'koa';
import type { SkewedTime } from '../core/clockSkew.ts';
import type { UnknownField } from '../core/unknownFields.ts';
import { SAMPLED } from '../ledger/core/receivedCounts.ts';
import type { AcceptedEvents, RequestOutcomes } from '../ledger/requestOutcomes.ts';
import type { UnauthenticatedLimit } from '../limits/unauthenticated.ts';
import type { IngestMetrics } from '../metrics.ts';
import { IncompleteReport, Rejected } from '../rejected.ts';
import { NIL_UUID } from '../rejections/core/rejectionCounts.ts';
import type { Rejections } from '../rejections/rejections.ts';

export const PROBLEM_TYPE = 'application/problem+json';
const REQUEST_ID = /^[\w.:-]{1,128}$/;

interface RequestRecorders {
  readonly rejections: Rejections;
  readonly received: RequestOutcomes;
  readonly unauthenticated: Pick<UnauthenticatedLimit, 'count'>;
}

export interface StartedRequest {
  readonly requestId: string;
  readonly startedMs: number;
  readonly state: RequestState;
}

export function problems(
  logger: Logger,
  metrics: IngestMetrics,
  headers: Readonly<Record<string, string>> = {},
  recorders?: RequestRecorders,
): Middleware {
  return async (ctx, next) => {
    const { requestId, startedMs, state } = startRequest(ctx.req);
    ctx.state = state;
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
    if (recorders !== undefined) {
      if (state.principal === undefined && !isExempt(ctx)) recorders.unauthenticated.count(ctx.req);
      if (isIngest(ctx)) recordReceived(recorders.received, state, rejected?.code ?? outcomeOf(ctx));
      const endpoint = route === undefined ? (state.endpoint ?? '') : `${ctx.method} ${route}`;
      const raw: unknown = Reflect.get(ctx.request, 'rawBody');
      const parsed = typeof raw === 'string' ? raw : undefined;
      recordRejections(
        recorders.rejections,
        { endpoint, authorization: ctx.get('Authorization'), parsed, state },
        rejected,
      );
    }
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
  return { requestId, startedMs: performance.now(), state: {} };
}

export function recordRequest(
  { requests, requestSeconds }: IngestMetrics,
  { startedMs, method, status }: { startedMs: number; method: string; status: number },
  route: string,
): void {
  requests.inc({ route, method, status });
  requestSeconds.observe({ route }, (performance.now() - startedMs) / 1000);
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

type FoundProblem = Pick<ElementProblem, 'code' | 'index' | 'pointer'>;

export interface RequestState {
  principal?: Principal;
  accepted?: AcceptedEvents;
  body?: Buffer;
  /** Method and route of a request whose path exists but does not allow the method. Otherwise undefined. */
  endpoint?: string;
  /** Method and path of a request that has a valid token but no matching endpoint. Otherwise undefined. */
  requested?: string;
  rejectedElements?: readonly FoundProblem[];
  ignored?: readonly UnknownField[];
  warned?: readonly SkewedTime[];
}

/** Part of the response to an accepted request: ignored fields, rejected elements, and times that suggest a wrong clock. */
export interface CheckedResponse {
  readonly ignored: readonly unknown[];
  readonly rejectedElements?: readonly FoundProblem[];
  readonly warned?: readonly unknown[];
}

/** Keeps a request body with problems until the response is sent, because problem samples are taken from the body. */
export async function keepBodyIfProblems<T extends CheckedResponse>(
  state: RequestState,
  body: Buffer,
  work: Promise<T>,
): Promise<T> {
  try {
    const answer = await work;
    const { ignored, rejectedElements = [], warned = [] } = answer;
    if (ignored.length + rejectedElements.length + warned.length > 0)
      Object.assign(state, { body, rejectedElements } satisfies RequestState);
    return answer;
  } catch (error) {
    if (error instanceof Rejected) state.body = body;
    throw error;
  }
}

/** Returns true if the rate limit for requests without valid credentials ignores this response. */
function isExempt({ status, method }: ParameterizedContext): boolean {
  return status >= 500 || (status < 300 && method === 'PUT');
}

function isIngest(ctx: ParameterizedContext): boolean {
  return ctx.method === 'POST' && String(ctx['_matchedRoute']).startsWith('/v1/ingest/');
}

function outcomeOf({ response }: ParameterizedContext): 'replayed' | 'accepted' {
  return 'idempotency-replayed' in response.headers ? 'replayed' : 'accepted';
}

/** Records the outcome of an ingest request: `accepted`, `replayed`, or a problem code. */
export function recordReceived(
  received: RequestOutcomes,
  { principal, accepted: of }: RequestState,
  outcome: string,
): void {
  const tenantId = principal?.tenant.id ?? NIL_UUID;
  received.push({ tenantId, outcome: outcome, accepted: of });
  if (of?.sampled) received.push({ tenantId, outcome: SAMPLED, accepted: { ...of, events: of.sampled } });
}

interface AnsweredRequest {
  readonly endpoint: string;
  readonly authorization: string;
  readonly parsed?: string | undefined;
  readonly state: RequestState;
}

export function recordRejections(
  rejections: Rejections,
  { endpoint, authorization, parsed, state }: AnsweredRequest,
  rejected: Rejected | undefined,
): void {
  const { principal, body, requested, rejectedElements = [], ignored = [], warned = [] } = state;
  // The body must not stay in memory, because the memory limit for request bodies does not count this body any more.
  delete state.body;
  const found = rejected === undefined ? rejectedElements : problemsOf(rejected);
  if (found.length + ignored.length + warned.length === 0) return;
  const text = requested ?? parsed;
  const sent = body ?? (text === undefined ? undefined : Buffer.from(text));
  const isAboutFields = rejected === undefined || (rejected.errors ?? []).length > 0;
  rejections.record({
    principal,
    endpoint,
    token: authorization.replace(/^bearer +/i, ''),
    body: isAboutFields || requested !== undefined || isAboutBody(rejected) ? sent : undefined,
    failedAt: isAboutFields ? undefined : rejected.failedAt,
    rejections: [
      ...found.map(({ code, index, pointer }) => ({ kind: 'rejected' as const, code, index, pointer })),
      ...ignored.map((field) => ({ ...field, kind: 'ignored' as const, code: 'field_unknown' as const })),
      ...warned.map(({ index, pointer, code }) => ({ kind: 'warned' as const, code, index, pointer })),
    ],
  });
}

function isAboutBody({ code }: Rejected): boolean {
  return [400, 413].includes(statusOf(code));
}

function problemsOf({ code, errors = [] }: Rejected): readonly FoundProblem[] {
  return errors.length > 0 ? errors : [{ code, index: 0, pointer: '' }];
}
