/**
 * The outermost middleware: a request id, metrics, every failure as a problem document (RFC 9457), and the counts of what
 * was refused or ignored.
 */
import { randomUUID } from 'node:crypto';
import type { Principal } from '@questlog/runtime/directory/directory';
import { RecordTooLarge } from '@questlog/runtime/log/log';
import { messageOf, Unavailable } from '@questlog/runtime/process/errors';
import type { Refusal } from '@questlog/runtime/process/listen';
import type { Logger } from '@questlog/runtime/process/logger';
import { problemOf, statusOf } from '@questlog/schemas/http/problem';
import type { Middleware, ParameterizedContext } from 'koa';
import type { UnknownField } from '../core/unknownFields.ts';
import { SAMPLED } from '../ledger/core/receivedCounts.ts';
import type { AcceptedEvents, Received } from '../ledger/received.ts';
import type { IngestMetrics } from '../metrics.ts';
import { CutShort, Rejected } from '../rejected.ts';
import { NOBODY, type Reject } from '../rejects/core/rejectCounts.ts';
import type { Rejects } from '../rejects/rejects.ts';

const PROBLEM_TYPE = 'application/problem+json';
const REQUEST_ID = /^[\w.:-]{1,128}$/;

/**
 * @param headers of every answer
 * @param books are told of what games sent: of what is wrong in it, and of how it was answered
 */
export function problems(
  logger: Logger,
  metrics: IngestMetrics,
  headers: Readonly<Record<string, string>> = {},
  books?: { readonly rejects: Rejects; readonly received: Received },
): Middleware {
  return async (ctx, next) => {
    const given = ctx.get('X-Request-Id');
    const requestId = REQUEST_ID.test(given) ? given : randomUUID();
    const stopTimer = metrics.requestSeconds.startTimer();
    ctx.set({ ...headers, 'X-Request-Id': requestId });
    let rejected: Rejected | undefined;
    try {
      checkExpectation(ctx.get('Expect'));
      await next();
    } catch (error) {
      rejected = rejectedFor(error, logger, requestId);
      answerProblem(ctx, rejected, requestId);
    }
    // Answered before its body has come, which nobody will read (RFC 9112, section 9.6).
    if (!ctx.req.complete) ctx.set('Connection', 'close');
    if (books !== undefined) {
      noteReceived(books.received, ctx, rejected);
      noteAnswer(books.rejects, ctx, rejected);
    }
    const route = String(ctx['_matchedRoute'] ?? 'none');
    metrics.requests.inc({ route, method: ctx.method, status: ctx.status });
    stopTimer({ route });
  };
}

/** RFC 9110, section 10.1.1: there is no other. */
function checkExpectation(expected: string): void {
  if (expected === '' || expected.toLowerCase() === '100-continue') return;
  throw new Rejected('expectation_failed', 'Expect: nothing but 100-continue is met here');
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

type FoundProblem = Pick<Reject, 'code' | 'index' | 'pointer'>;

/** In a request's `state`. Of one with nothing wrong there is only the principal. */
interface NotedState {
  principal?: Principal;
  accepted?: AcceptedEvents;
  body?: Buffer;
  /** Elements that were left out of a batch. */
  refused?: readonly FoundProblem[];
  ignored?: readonly UnknownField[];
}

/** An answer, with what was wrong in the body all the same. */
export interface Judged {
  readonly ignored: readonly unknown[];
  readonly refused?: readonly FoundProblem[];
}

/** Keeps the body of a request that something is wrong with until it is answered. */
export async function keptIfWrong<T extends Judged>(
  state: NotedState,
  body: Buffer,
  work: Promise<T>,
): Promise<T> {
  try {
    const answer = await work;
    const { ignored, refused = [] } = answer;
    if (ignored.length + refused.length > 0) Object.assign(state, { body, refused });
    return answer;
  } catch (error) {
    if (error instanceof Rejected) state.body = body;
    throw error;
  }
}

/** Of requests to store something. */
function noteReceived(received: Received, ctx: ParameterizedContext, rejected: Rejected | undefined): void {
  if (ctx.method !== 'POST' || !String(ctx['_matchedRoute']).startsWith('/v1/ingest/')) return;
  const { principal, accepted }: NotedState = ctx.state;
  const isReplay = 'idempotency-replayed' in ctx.response.headers;
  const what = rejected?.code ?? (isReplay ? 'replayed' : 'accepted');
  const of = rejected === undefined ? accepted : undefined;
  const tenantId = principal?.tenant.id ?? NOBODY;
  received.push({ tenantId, what, of });
  if (of?.sampled) received.push({ tenantId, what: SAMPLED, of: { ...of, events: of.sampled } });
}

/** @param rejected undefined where the request was taken. */
function noteAnswer(rejects: Rejects, ctx: ParameterizedContext, rejected: Rejected | undefined): void {
  const state: NotedState = ctx.state;
  const { principal, body, refused = [], ignored = [] } = state;
  // However long the answer takes: a body that is held counts in no budget.
  delete state.body;
  const found = rejected === undefined ? refused : problemsOf(rejected);
  if (found.length + ignored.length === 0) return;
  const route: unknown = ctx['_matchedRoute'];
  // A parsed body is kept as text.
  const raw: unknown = Reflect.get(ctx.request, 'rawBody');
  const sent = body ?? (typeof raw === 'string' ? Buffer.from(raw) : undefined);
  const isAboutFields = rejected === undefined || (rejected.errors ?? []).length > 0;
  rejects.note({
    principal,
    endpoint: route === undefined ? '' : `${ctx.method} ${route}`,
    token: ctx.get('Authorization').replace(/^bearer +/i, ''),
    body: isAboutFields || isAboutBody(rejected) ? sent : undefined,
    failedAt: isAboutFields ? undefined : rejected.failedAt,
    rejects: [
      ...found.map(({ code, index, pointer }) => ({ kind: 'rejected' as const, code, index, pointer })),
      ...ignored.map((field) => ({ ...field, kind: 'ignored' as const, code: 'field_unknown' as const })),
    ],
  });
}

/** What stands in the body is no matter of its session or its key. */
function isAboutBody({ code }: Rejected): boolean {
  return [400, 413].includes(statusOf(code));
}

function problemsOf({ code, errors = [] }: Rejected): readonly FoundProblem[] {
  return errors.length > 0 ? errors : [{ code, index: 0, pointer: '' }];
}
