/** Handles event requests without Koa, because Koa would take most of the time of a small request. */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import {
  isBodyIncomplete,
  problemAnswer,
  recordRequest,
  rejectedFor,
  type StartedRequest,
  startRequest,
} from '@questlog/runtime/http/problems';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { Logger } from '@questlog/runtime/process/logger';
import { freeBytes } from '@questlog/schemas/buffers';
import { GAMES } from '@questlog/schemas/http/operations/games';
import { routeOf } from '@questlog/schemas/http/operations/operation';
import { PROBLEM_TYPE } from '@questlog/schemas/http/problem';
import { canonicalUuid, isUuidV7 } from '@questlog/schemas/uuid';
import { type IngestDeps, idempotencyOf, ingest } from '../events/ingestEvents.ts';
import type { IngestMetrics } from '../metrics.ts';
import type { JwtVerifier } from '../tokens/jwt/jwtVerifier.ts';
import type { Authorize, Caller, RequestContext } from './authenticate.ts';
import { type AllowedOrigins, commonCorsHeaders } from './cors.ts';
import { handlingHeaders, handlingIn } from './prefer.ts';
import { type BodyDeps, withLimitedBody } from './readBody.ts';
import {
  type OutcomeRecorders,
  type RequestState,
  recordReceived,
  recordRejections,
} from './recordOutcomes.ts';

const { access: SCOPE } = GAMES.createEvents;
const { method: METHOD, path: EVENTS_PATH } = routeOf(GAMES.createEvents);

export interface HotRouteDeps extends BodyDeps, OutcomeRecorders {
  readonly ingest: IngestDeps;
  readonly logger: Logger;
  readonly metrics: IngestMetrics;
  readonly corsOrigins: AllowedOrigins;
  readonly jwts?: JwtVerifier | undefined;
}

export function hotRoute(deps: HotRouteDeps, authorize: Authorize, koa: RequestListener): RequestListener {
  const commonHeaders = Object.entries(commonCorsHeaders(deps.corsOrigins)).flat();
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const started = startRequest(request);
    const { requestId } = started;
    const state: RequestState = {};
    let answer: RawResponse;
    let rejected: Rejected | undefined;
    try {
      const context = { req: request, state };
      const authenticate = () => authorize(context, SCOPE);
      const caller = { principal: authenticate(), reauthenticate: authenticate };
      answer = await answerEvents(deps, caller, context, requestId);
    } catch (error) {
      rejected = rejectedFor(error, deps.logger, requestId);
      const { body, ...problem } = problemAnswer(rejected, requestId);
      answer = { ...problem, body: Buffer.from(body), type: PROBLEM_TYPE };
    }
    const head = [...commonHeaders, 'X-Request-Id', requestId];
    send(response, head, answer, !request.complete && (await isBodyIncomplete(request)));
    record(deps, request, { ...started, state }, answer, rejected);
  };
  return (request, response) => {
    if (isOrdinary(request, deps)) void serve(request, response);
    else koa(request, response);
  };
}

function isOrdinary({ url, method, headers }: IncomingMessage, { jwts, corsOrigins }: HotRouteDeps): boolean {
  if (url !== EVENTS_PATH || method !== METHOD || headers.expect !== undefined) return false;
  if (corsOrigins !== '*' && headers.origin !== undefined) return false;
  return jwts === undefined || !headers.authorization?.includes('.');
}

interface RawResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly type?: string;
  readonly isReplay?: boolean;
}

export interface EventsResponse extends RawResponse {
  readonly isReplay: boolean;
}

export async function answerEvents(
  deps: BodyDeps & Pick<HotRouteDeps, 'ingest'>,
  caller: Caller,
  context: RequestContext & { readonly state: RequestState },
  requestId: string,
): Promise<EventsResponse> {
  const { headers } = context.req;
  const key = idempotencyKeyOf(String(headers['idempotency-key'] ?? ''));
  const handling = handlingIn(String(headers['prefer'] ?? ''));
  const options = { isLenient: handling === 'lenient', isStrict: handling === 'strict' };
  const answer = await withLimitedBody(context, deps, caller, (principal, body) =>
    ingest(deps.ingest, { principal, body, idempotency: idempotencyOf(key, body), ...options, requestId }),
  );
  const { status, isReplay, body, accepted, ignored, warned } = answer;
  Object.assign(context.state, { accepted, ignored, warned });
  return {
    status,
    isReplay,
    body,
    headers: {
      ...answer.headers,
      ...(isReplay && { 'Idempotency-Replayed': 'true' }),
      ...handlingHeaders(handling, ignored),
    },
  };
}

/** Returns the UUIDv7 in the `Idempotency-Key` header. A client can omit the quotes that the draft standard requires. */
function idempotencyKeyOf(header: string): string | undefined {
  if (header === '') return undefined;
  // Most keys already have the canonical form, so the code checks one pattern first.
  if (isUuidV7(header)) return header;
  const key = canonicalUuid(header.replace(/^"(.*)"$/, '$1'));
  if (key !== undefined && isUuidV7(key)) return key;
  throw new Rejected(
    'invalid_idempotency_key',
    'the Idempotency-Key must be a UUIDv7 (RFC 9562), such as 019a9c36-2c00-7000-8000-000000000001',
  );
}

function send(response: ServerResponse, head: string[], answer: RawResponse, endsConnection: boolean): void {
  const { status, headers, body, type = 'application/json; charset=utf-8' } = answer;
  for (const name in headers) head.push(name, headers[name] ?? '');
  head.push('Content-Type', type, 'Content-Length', String(body.length));
  if (endsConnection) head.push('Connection', 'close');
  response.writeHead(status, head);
  if (body.length > MAX_COPIED_BYTES) {
    response.end(body, () => freeBytes(body));
    return;
  }
  // Sends the body as a string, because Node writes a string together with the response head in one system call.
  response.end(body.toString('latin1'), 'latin1');
  freeBytes(body);
}

/** Maximum bytes of a body that is sent as a string together with the headers. Converting a larger body would be slower. */
const MAX_COPIED_BYTES = 16 * 1024;

function record(
  { received, rejections, metrics, unauthenticated }: HotRouteDeps,
  request: IncomingMessage,
  { state, startedMs }: StartedRequest & { readonly state: RequestState },
  { status, isReplay }: RawResponse,
  rejected: Rejected | undefined,
): void {
  const { authorization = '' } = request.headers;
  if (state.principal === undefined) unauthenticated.count(request);
  recordReceived(received, state, rejected?.code ?? (isReplay ? 'replayed' : 'accepted'));
  if (rejected !== undefined || state.body !== undefined)
    recordRejections(rejections, { endpoint: GAMES.createEvents.route, authorization, state }, rejected);
  recordRequest(metrics, { startedMs, method: METHOD, status }, EVENTS_PATH);
}
