/**
 * POST /v1/ingest/events, from the request's head to its answer, on `node:http` alone: authenticate → read → ingest → answer.
 * Koa would take most of the time of a small request, and of a flood of refusals. It is handed what is unusual in a request's head.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Logger } from '@questlog/runtime/process/logger';
import { freeBytes } from '@questlog/schemas/buffers';
import { canonicalUuid, isUuidV7 } from '@questlog/schemas/uuid';
import { type IngestDeps, ingest } from '../events/ingestEvents.ts';
import type { RequestOutcomes } from '../ledger/requestOutcomes.ts';
import type { UnauthenticatedLimit } from '../limits/unauthenticated.ts';
import type { IngestMetrics } from '../metrics.ts';
import { Rejected } from '../rejected.ts';
import type { Rejections } from '../rejections/rejections.ts';
import type { JwtVerifier } from '../tokens/jwt/jwtVerifier.ts';
import type { Asked, CallerOf } from './authenticate.ts';
import { type AllowedOrigins, headersOfEveryAnswer } from './cors.ts';
import { handlingHeaders, handlingIn } from './prefer.ts';
import {
  type Begun,
  begin,
  isBeforeItsBody,
  type NotedState,
  noteAnswer,
  noteReceived,
  noteRequest,
  PROBLEM_TYPE,
  problemAnswer,
  rejectedFor,
} from './problems.ts';
import { type BodyDeps, withLimitedBody } from './readBody.ts';

export const EVENTS_PATH = '/v1/ingest/events';

export interface HotRouteDeps extends EventsDeps {
  readonly received: RequestOutcomes;
  readonly rejections: Rejections;
  readonly unauthenticated: Pick<UnauthenticatedLimit, 'count'>;
  readonly logger: Logger;
  readonly metrics: IngestMetrics;
  readonly corsOrigins: AllowedOrigins;
  /** Undefined where JWTs are not set up. */
  readonly jwts?: JwtVerifier | undefined;
}

interface EventsDeps extends BodyDeps {
  readonly ingest: IngestDeps;
}

/** @param koa has every other route, and this one's unusual requests. */
export function hotRoute(deps: HotRouteDeps, as: CallerOf, koa: RequestListener): RequestListener {
  const ofEveryAnswer = Object.entries(headersOfEveryAnswer(deps.corsOrigins)).flat();
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const begun = begin(request);
    const { state, requestId } = begun;
    let answer: Told;
    let rejected: Rejected | undefined;
    try {
      answer = await answerEvents(deps, as, { req: request, state }, requestId);
    } catch (error) {
      rejected = rejectedFor(error, deps.logger, requestId);
      const { body, ...problem } = problemAnswer(rejected, requestId);
      answer = { ...problem, body: Buffer.from(body), type: PROBLEM_TYPE };
    }
    const head = [...ofEveryAnswer, 'X-Request-Id', requestId];
    tell(response, head, answer, !request.complete && (await isBeforeItsBody(request)));
    note(deps, request, begun, answer, rejected);
  };
  return (request, response) => {
    if (isOrdinary(request, deps)) void serve(request, response);
    else koa(request, response);
  };
}

/** Otherwise it takes what stands before the routes of Koa, or another of them. */
function isOrdinary({ url, method, headers }: IncomingMessage, { jwts, corsOrigins }: HotRouteDeps): boolean {
  if (url !== EVENTS_PATH || method !== 'POST' || headers.expect !== undefined) return false;
  if (corsOrigins !== '*' && headers.origin !== undefined) return false;
  return jwts === undefined || !headers.authorization?.includes('.');
}

interface Told {
  readonly status: number;
  /** Beside those of every answer. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** JSON, unless it is given. */
  readonly type?: string;
  readonly isReplay?: boolean;
}

export interface EventsAnswer extends Told {
  readonly isReplay: boolean;
}

/** @throws Rejected, Unavailable. */
export async function answerEvents(
  deps: EventsDeps,
  as: CallerOf,
  asked: Asked & { readonly state: NotedState },
  requestId: string,
): Promise<EventsAnswer> {
  const authenticate = () => as(asked, 'events:write');
  const caller = { principal: authenticate(), again: authenticate };
  const { headers } = asked.req;
  const idempotencyKey = idempotencyKeyOf(String(headers['idempotency-key'] ?? ''));
  const handling = handlingIn(String(headers['prefer'] ?? ''));
  const wanted = { isLenient: handling === 'lenient', isStrict: handling === 'strict' };
  const answer = await withLimitedBody(asked, deps, caller, (principal, body) =>
    ingest(deps.ingest, { principal, body, idempotencyKey, ...wanted, requestId }),
  );
  const { status, isReplay, body, accepted, ignored, warned } = answer;
  Object.assign(asked.state, { accepted, ignored, warned });
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

/** A bare UUIDv7, or quoted as the draft of the header's standard has it. */
function idempotencyKeyOf(header: string): string | undefined {
  if (header === '') return undefined;
  const key = canonicalUuid(header.replace(/^"(.*)"$/, '$1'));
  if (key !== undefined && isUuidV7(key)) return key;
  throw new Rejected(
    'invalid_idempotency_key',
    'the Idempotency-Key must be a UUIDv7 (RFC 9562), such as 019a9c36-2c00-7000-8000-000000000001',
  );
}

/** @param head a list of names and values, to which those of this answer are added */
function tell(response: ServerResponse, head: string[], told: Told, endsConnection: boolean): void {
  const { status, headers, body, type = 'application/json; charset=utf-8' } = told;
  for (const name in headers) head.push(name, headers[name] ?? '');
  head.push('Content-Type', type, 'Content-Length', String(body.length));
  if (endsConnection) head.push('Connection', 'close');
  response.writeHead(status, head);
  if (body.length > SMALL_BYTES) {
    response.end(body, () => freeBytes(body));
    return;
  }
  // The bytes as a text, which goes out with its head in one piece.
  response.end(body.toString('latin1'), 'latin1');
  freeBytes(body);
}

/** Copying so much costs less than a second piece. */
const SMALL_BYTES = 16 * 1024;

function note(
  { received, rejections, metrics, unauthenticated }: HotRouteDeps,
  request: IncomingMessage,
  { state, startedMs }: Begun,
  { status, isReplay }: Told,
  rejected: Rejected | undefined,
): void {
  const { authorization = '' } = request.headers;
  if (state.principal === undefined) unauthenticated.count(request);
  noteReceived(received, state, rejected?.code ?? (isReplay ? 'replayed' : 'accepted'));
  if (rejected !== undefined || state.body !== undefined)
    noteAnswer(rejections, { endpoint: `POST ${EVENTS_PATH}`, authorization, state }, rejected);
  noteRequest(metrics, { startedMs, method: 'POST', status }, EVENTS_PATH);
}
