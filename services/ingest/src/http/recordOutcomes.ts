/** Records request outcomes for the ledger, for the table `rejects`, and for the limit of unauthenticated requests. */
import type { Principal } from '@questlog/runtime/directory/directory';
import type { UnknownField } from '@questlog/runtime/http/core/unknownFields';
import type { UnauthenticatedLimit } from '@questlog/runtime/http/limits/unauthenticated';
import type { OnAnswered } from '@questlog/runtime/http/problems';
import { Rejected } from '@questlog/runtime/http/rejected';
import { type ElementProblem, statusOf } from '@questlog/schemas/http/problem';
import { NIL_UUID } from '@questlog/schemas/uuid';
import type { ParameterizedContext } from 'koa';
import type { SkewedTime } from '../core/clockSkew.ts';
import { SAMPLED } from '../ledger/core/receivedCounts.ts';
import type { AcceptedEvents, RequestOutcomes } from '../ledger/requestOutcomes.ts';
import type { Rejections } from '../rejections/rejections.ts';

type FoundProblem = Pick<ElementProblem, 'code' | 'index' | 'pointer'>;

export interface RequestState {
  principal?: Principal;
  accepted?: AcceptedEvents;
  body?: Buffer;
  /** Method and route, if the request's path exists but does not allow the method. Otherwise undefined. */
  endpoint?: string;
  /** Method and path, if the request has a valid token but its path does not exist. Otherwise undefined. */
  requested?: string;
  rejectedElements?: readonly FoundProblem[];
  ignored?: readonly UnknownField[];
  warned?: readonly SkewedTime[];
}

/** Data of the response to an accepted request: ignored fields, rejected elements, and times that suggest a wrong clock. */
export interface CheckedResponse {
  readonly ignored: readonly unknown[];
  readonly rejectedElements?: readonly FoundProblem[];
  readonly warned?: readonly unknown[];
}

/** Keeps a request body with problems until the response is sent, because samples of the problems are copied from the body. */
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

export interface OutcomeRecorders {
  readonly rejections: Rejections;
  readonly received: RequestOutcomes;
  readonly unauthenticated: Pick<UnauthenticatedLimit, 'count'>;
}

/** Returns a function that records the outcome of a request of a Koa route. */
export function outcomeRecorder({ rejections, received, unauthenticated }: OutcomeRecorders): OnAnswered {
  return (ctx, rejected) => {
    const state: RequestState = ctx.state;
    const route: unknown = ctx['_matchedRoute'];
    if (state.principal === undefined && !isExempt(ctx)) unauthenticated.count(ctx.req);
    if (isIngest(ctx)) recordReceived(received, state, rejected?.code ?? outcomeOf(ctx));
    const endpoint = route === undefined ? (state.endpoint ?? '') : `${ctx.method} ${route}`;
    const raw: unknown = Reflect.get(ctx.request, 'rawBody');
    const parsed = typeof raw === 'string' ? raw : undefined;
    recordRejections(
      rejections,
      { endpoint, authorization: ctx.get('Authorization'), parsed, state },
      rejected,
    );
  };
}

/** Keeps the method and the path of a request without a route, because the table `rejects` shows them. */
export function recordNoRoute(
  { method, path, state }: ParameterizedContext,
  endpoint: string | undefined,
  principal: Principal | undefined,
): void {
  if (endpoint !== undefined) Object.assign(state, { endpoint } satisfies RequestState);
  if (principal === undefined) return;
  Object.assign(state, { principal, requested: `${method} ${path}` } satisfies RequestState);
}

/** True if a response does not count for the rate limit of requests without valid credentials. */
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
  // Removes the body from the request state, because the memory limit for bodies does not count this body any more.
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
