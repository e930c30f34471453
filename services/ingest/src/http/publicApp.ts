/** Builds the HTTP handler for the public endpoints of the API contract. */

import type { RequestListener } from 'node:http';
import { Router, type RouterContext } from '@koa/router';
import type { Principal } from '@questlog/runtime/directory/directory';
import { unknownOf } from '@questlog/runtime/http/core/unknownFields';
import type { UnauthenticatedLimit } from '@questlog/runtime/http/limits/unauthenticated';
import { problems, rejectLimitedAddresses } from '@questlog/runtime/http/problems';
import { Rejected } from '@questlog/runtime/http/rejected';
import { methodsAt, noRoute } from '@questlog/runtime/http/route';
import { type AuthorizeRequest, addRoutes, type Handlers, isOnlyIn } from '@questlog/runtime/http/routes';
import { messageOf } from '@questlog/runtime/process/errors';
import { traceRequests } from '@questlog/runtime/tracing/traceRequests';
import type { Tracing } from '@questlog/runtime/tracing/tracing';
import type { EVENTS } from '@questlog/schemas/http/operations/events';
import { GAMES } from '@questlog/schemas/http/operations/games';
import { OPERATORS } from '@questlog/schemas/http/operations/operators';
import type { REPORTS } from '@questlog/schemas/http/operations/reports';
import type { SESSIONS } from '@questlog/schemas/http/operations/sessions';
import Koa from 'koa';
import { type SkewedTime, skewHeader } from '../core/clockSkew.ts';
import type { ReadContext } from '../entityCache/readContext.ts';
import { listEvents, readEvent, readQuota, readSessionEvents } from '../events/readEvents.ts';
import { isStreamId } from '../linkedEvents/core/streamId.ts';
import type { LinkedEventStreams, StartPosition } from '../linkedEvents/streams.ts';
import { createReport, type ReportDeps } from '../reports/createReport.ts';
import { listReports } from '../reports/listReports.ts';
import { readReport, readReportEvents, retractReport } from '../reports/readReports.ts';
import { readBuilds, readPlayerSessions, readSession } from '../sessions/readSessions.ts';
import { registerSession } from '../sessions/registerSession.ts';
import {
  type Authorize,
  type AuthorizerDeps,
  authorizer,
  type Caller,
  validPrincipal,
  verifyJwts,
} from './authenticate.ts';
import { allowListedOrigins, answerPreflights, commonCorsHeaders, corsHeaders } from './cors.ts';
import { answerEvents, type HotRouteDeps, hotRoute } from './hotRoute.ts';
import { docsRoutes, rootToDocs } from './openapi/docsPage.ts';
import { openApi } from './openapi/openapi.ts';
import { isStrict, setHandlingHeaders } from './prefer.ts';
import { type BodyDeps, withLimitedBody } from './readBody.ts';
import { outcomeRecorder, recordNoRoute } from './recordOutcomes.ts';
import { type UploadHandlerDeps, uploadHandlers } from './uploadHandlers.ts';

export interface PublicAppDeps extends HotRouteDeps, AuthorizerDeps {
  readonly unauthenticated: UnauthenticatedLimit;
  readonly reads: ReadContext;
  readonly reports: ReportDeps;
  readonly uploads: UploadHandlerDeps;
  readonly linkedEvents: LinkedEventStreams;
  readonly hasDocs: boolean;
  readonly tracing?: Tracing | undefined;
}

export function gamesHandler(deps: PublicAppDeps): RequestListener {
  const { unauthenticated, corsOrigins } = deps;
  const handler = hotRoute(deps, authorizer(deps), publicApp(deps).callback());
  const traced = traceRequests(deps.tracing, GAMES, handler);
  return rejectLimitedAddresses(traced, unauthenticated, ({ headers }) =>
    corsHeaders(corsOrigins, headers.origin),
  );
}

export function publicApp(deps: PublicAppDeps): Koa {
  const { corsOrigins, logger, metrics } = deps;
  const router = new Router({ sensitive: true });
  let document: string | undefined;
  const handlers = {
    ...eventHandlers(deps),
    ...sessionHandlers(deps),
    ...uploadHandlers(deps.uploads),
    ...reportHandlers(deps),
    // The health route needs no token, because games use it to check whether the server is reachable.
    getHealth: () => ({ status: 'ok' }),
    getOpenApi: () => {
      document ??= JSON.stringify(openApi(deps.defaultRevision));
      return document;
    },
  };
  addRoutes(router, GAMES, handlers, callerOf(authorizer(deps)));
  if (deps.hasDocs) docsRoutes(router);

  const app = new Koa();
  app.on('error', (error) => logger.warn('answer_failed', { cause: messageOf(error) }));
  app.use(problems(logger, metrics, commonCorsHeaders(corsOrigins), outcomeRecorder(deps)));
  if (corsOrigins !== '*') app.use(allowListedOrigins(corsOrigins));
  if (deps.jwts !== undefined) app.use(verifyJwts(deps.jwts));
  app.use(router.routes());
  if (corsOrigins.length > 0) app.use(answerPreflights((path) => methodsAt(router, path).size > 0));
  if (deps.hasDocs) app.use(rootToDocs);
  app.use(
    noRoute(router, {
      otherListenerHint: operatorsHint,
      onNoRoute: (ctx, endpoint) => recordNoRoute(ctx, endpoint, validPrincipal(ctx, deps)),
    }),
  );
  return app;
}

/** Returns a hint if a request, such as a health probe, belongs to the operators' port. */
function operatorsHint(path: string): string | undefined {
  if (path !== '/login' && !isOnlyIn(OPERATORS, GAMES, path)) return undefined;
  return "the operators' listener serves it (QUESTLOG_ADMIN_PORT, default 8081); this listener has GET /health";
}

/**
 * Returns a function that authenticates a request and returns the caller. The caller's method `reauthenticate` authenticates
 * the same request again, for example while the response is streamed.
 */
export function callerOf(authorize: Authorize): AuthorizeRequest<Caller> {
  return (ctx, scope) => {
    const authenticate = () => authorize(ctx, scope);
    return { principal: authenticate(), reauthenticate: authenticate };
  };
}

function eventHandlers(deps: PublicAppDeps): Handlers<typeof EVENTS, Caller> {
  const { reads, linkedEvents } = deps;
  return {
    // Handles event requests that `hotRoute` does not handle, such as requests with an `Expect` header.
    createEvents: async (ctx, { caller }) => {
      const requestId = ctx.response.get('X-Request-Id');
      const { status, headers, body } = await answerEvents(deps, caller, ctx, requestId);
      ctx.set(headers);
      ctx.status = status;
      return body;
    },
    listEvents: (ctx, { caller }) => listEvents(reads, caller.principal, lastQuery(ctx)),
    getEvent: (_, { caller, params }) => readEvent(reads, caller.principal, params.id),
    getQuota: (_, { caller }) => readQuota(reads, caller.principal),
    streamLinkedEvents: (ctx, { caller }) => streamLinkedEvents(linkedEvents, ctx, caller),
  };
}

/**
 * Streams linked events to a client, and checks the token periodically. @throws Rejected or Unavailable if the stream cannot
 * start
 */
export async function streamLinkedEvents(
  streams: LinkedEventStreams,
  ctx: RouterContext,
  { principal, reauthenticate }: Caller,
): Promise<void> {
  const from = wantedPosition(ctx);
  if (ctx.method === 'HEAD') {
    ctx.status = 200;
    ctx.type = 'text/event-stream';
    return;
  }
  const client = { principal, response: ctx.res, isAllowed: () => isAllowed(reauthenticate) };
  const stream = await streams.open(client, from);
  if (stream === undefined) throw invalidPosition(positionParameter(ctx));
  ctx.respond = false;
}

/** Returns the start position of a stream. Prefers `Last-Event-ID` to the URL, because reconnecting clients repeat the URL. */
function wantedPosition(ctx: RouterContext): StartPosition {
  const name = positionParameter(ctx);
  const text = name === 'from' ? lastQuery(ctx)['from'] : ctx.get(LAST_EVENT_ID);
  if (name === 'from' && (text === undefined || text === 'start')) return 'start';
  if (name === 'from' && text === 'end') return 'end';
  if (text === undefined || !isStreamId(text)) throw invalidPosition(name);
  return { id: text };
}

function positionParameter(ctx: RouterContext): 'from' | typeof LAST_EVENT_ID {
  return ctx.get(LAST_EVENT_ID) === '' ? 'from' : LAST_EVENT_ID;
}

function invalidPosition(name: string): Rejected {
  const choice = name === 'from' ? 'start, end, or the id of a message' : 'the id of a message';
  return new Rejected('invalid_request', `${name}: ${choice} of this stream`);
}

function isAllowed(authenticate: () => Principal): boolean {
  try {
    authenticate();
    return true;
  } catch (error) {
    if (error instanceof Rejected) return false;
    throw error;
  }
}

const LAST_EVENT_ID = 'Last-Event-ID';

function sessionHandlers(deps: PublicAppDeps): Handlers<typeof SESSIONS, Caller> {
  const { reads } = deps;
  return {
    registerSession: async (ctx, { caller }) => {
      const strict = isStrict(ctx);
      const answer = await withLimitedBody(ctx, deps, caller, (principal, body) =>
        registerSession(reads, principal, body, strict),
      );
      setNoticeHeaders(ctx, strict, answer);
      ctx.status = answer.status;
      return answer.body;
    },
    getSession: (_, { caller, params }) => readSession(reads, caller.principal, params.id),
    listSessionEvents: (ctx, { caller, params }) =>
      readSessionEvents(reads, caller.principal, params.id, lastQuery(ctx)),
    listBuilds: (ctx, { caller }) => readBuilds(reads, caller.principal, lastQuery(ctx)),
    listPlayerSessions: (ctx, { caller, params }) =>
      readPlayerSessions(reads, caller.principal, params.externalId, lastQuery(ctx)),
  };
}

export function reportHandlers(
  deps: BodyDeps & { readonly reports: ReportDeps; readonly reads: ReadContext },
): Handlers<typeof REPORTS, Caller> {
  const { reports, reads } = deps;
  return {
    createReport: async (ctx, { caller }) => {
      const strict = isStrict(ctx);
      const answer = await withLimitedBody(ctx, deps, caller, (principal, body) =>
        createReport(reports, principal, body, strict),
      );
      setNoticeHeaders(ctx, strict, answer);
      ctx.state['accepted'] = answer.accepted;
      ctx.status = answer.isReplay ? 200 : 201;
      ctx.set('Location', `/v1/reports/${answer.id}`);
      if (answer.isReplay) ctx.set('Idempotency-Replayed', 'true');
      return answer.body;
    },
    listReports: (ctx, { caller }) => listReports(reads, caller.principal, lastQuery(ctx)),
    getReport: (_, { caller, params }) => readReport(reads, caller.principal, params.id),
    listReportEvents: (ctx, { caller, params }) =>
      readReportEvents(reads, caller.principal, params.id, lastQuery(ctx)),
    retractReport: (_, { caller, params }) => retractReport(reports, caller.principal, params.id),
  };
}

/** Sets the response headers about ignored fields and about times that suggest a wrong clock. */
function setNoticeHeaders(
  ctx: RouterContext,
  strict: boolean,
  { ignored, warned }: { readonly ignored: readonly string[]; readonly warned: readonly SkewedTime[] },
): void {
  setHandlingHeaders(ctx, strict ? 'strict' : undefined, unknownOf(ignored));
  ctx.set(skewHeader(warned));
  ctx.state['warned'] = warned;
}

/** Returns the query parameters of a URL. If a parameter is repeated, returns the last value. */
function lastQuery(ctx: RouterContext): Readonly<Record<string, string | undefined>> {
  const texts = Object.entries(ctx.query).map(([name, value]) => [
    name,
    Array.isArray(value) ? value.at(-1) : value,
  ]);
  return Object.fromEntries(texts);
}
