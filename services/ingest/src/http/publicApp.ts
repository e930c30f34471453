/** Builds the HTTP handler for the public endpoints of the API contract. */

import type { RequestListener } from 'node:http';
import { Router, type RouterContext, type RouterInstance } from '@koa/router';
import type { Principal } from '@questlog/runtime/directory/directory';
import { unknownOf } from '@questlog/runtime/http/core/unknownFields';
import type { UnauthenticatedLimit } from '@questlog/runtime/http/limits/unauthenticated';
import { problems, rejectLimitedAddresses } from '@questlog/runtime/http/problems';
import { Rejected } from '@questlog/runtime/http/rejected';
import { methodsAt, noRoute } from '@questlog/runtime/http/route';
import { messageOf } from '@questlog/runtime/process/errors';
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
  validPrincipal,
  verifyJwts,
} from './authenticate.ts';
import { allowListedOrigins, answerPreflights, commonCorsHeaders, corsHeaders } from './cors.ts';
import { answerEvents, EVENTS_PATH, type HotRouteDeps, hotRoute } from './hotRoute.ts';
import { docsRoutes, rootToDocs } from './openapi/docsPage.ts';
import { openApi } from './openapi/openapi.ts';
import { isStrict, setHandlingHeaders } from './prefer.ts';
import { type BodyDeps, withLimitedBody } from './readBody.ts';
import { outcomeRecorder, recordNoRoute } from './recordOutcomes.ts';
import { type UploadRouteDeps, uploadRoutes } from './uploadRoutes.ts';

export interface PublicAppDeps extends HotRouteDeps, AuthorizerDeps {
  readonly unauthenticated: UnauthenticatedLimit;
  readonly reads: ReadContext;
  readonly reports: ReportDeps;
  readonly uploads: UploadRouteDeps;
  readonly linkedEvents: LinkedEventStreams;
  readonly hasDocs: boolean;
}

export function gamesHandler(deps: PublicAppDeps): RequestListener {
  const { unauthenticated, corsOrigins } = deps;
  const handler = hotRoute(deps, authorizer(deps), publicApp(deps).callback());
  return rejectLimitedAddresses(handler, unauthenticated, ({ headers }) =>
    corsHeaders(corsOrigins, headers.origin),
  );
}

export function publicApp(deps: PublicAppDeps): Koa {
  const { reads, corsOrigins, logger, metrics } = deps;
  const router = new Router({ sensitive: true });
  const authorize = authorizer(deps);
  let document: string | undefined;

  router.post(EVENTS_PATH, (ctx) => ingestEvents(deps, authorize, ctx));
  router.get('/v1/events', async (ctx) =>
    json(ctx, await listEvents(reads, authorize(ctx, 'read'), query(ctx))),
  );
  router.get('/v1/events/:id', async (ctx) =>
    json(ctx, await readEvent(reads, authorize(ctx, 'read'), param(ctx))),
  );
  router.get('/v1/sessions/:id/events', async (ctx) => {
    json(ctx, await readSessionEvents(reads, authorize(ctx, 'read'), param(ctx), query(ctx)));
  });
  sessionRoutes(router, deps, authorize);
  uploadRoutes(router, deps.uploads, authorize);
  reportRoutes(router, deps, authorize);
  router.get('/v1/quota', async (ctx) => {
    ctx.body = await readQuota(reads, authorize(ctx, 'read'));
  });
  router.get('/v1/linked-events', (ctx) =>
    streamLinkedEvents(deps.linkedEvents, ctx, () => authorize(ctx, 'read')),
  );
  router.get('/openapi.json', (ctx) => {
    document ??= JSON.stringify(openApi(deps.defaultRevision));
    json(ctx, document);
  });
  if (deps.hasDocs) docsRoutes(router);
  // The health route requires no token, because games use the route to check that the server is reachable.
  router.get('/health', (ctx) => {
    ctx.body = { status: 'ok' };
  });

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

/** Returns a hint for a health probe or a Prometheus server that uses the wrong port. */
function operatorsHint(path: string): string | undefined {
  if (!/^\/(healthz|readyz|metrics|admin|login)(\/|$)/.test(path)) return undefined;
  return "the operators' listener serves it (QUESTLOG_ADMIN_PORT, default 8081); this listener has GET /health";
}

/** Handles the event requests that `hotRoute` does not handle, such as requests with an `Expect` header. */
async function ingestEvents(deps: PublicAppDeps, authorize: Authorize, ctx: RouterContext): Promise<void> {
  const requestId = String(ctx.response.get('X-Request-Id'));
  const { status, headers, body } = await answerEvents(deps, authorize, ctx, requestId);
  ctx.set(headers);
  ctx.status = status;
  json(ctx, body);
}

/** Streams linked events and checks the token periodically. @throws Rejected or Unavailable if the stream cannot start */
export async function streamLinkedEvents(
  streams: LinkedEventStreams,
  ctx: RouterContext,
  authenticate: () => Principal,
): Promise<void> {
  const principal = authenticate();
  const from = wantedPosition(ctx);
  if (ctx.method === 'HEAD') {
    ctx.status = 200;
    ctx.type = 'text/event-stream';
    return;
  }
  const client = { principal, response: ctx.res, isAllowed: () => isAllowed(authenticate) };
  const stream = await streams.open(client, from);
  if (stream === undefined) throw invalidPosition(positionParameter(ctx));
  ctx.respond = false;
}

/** Returns the start position of a stream. Prefers `Last-Event-ID` to the URL, because reconnecting clients repeat the URL. */
function wantedPosition(ctx: RouterContext): StartPosition {
  const name = positionParameter(ctx);
  const text = name === 'from' ? query(ctx)['from'] : ctx.get(LAST_EVENT_ID);
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

function sessionRoutes(router: RouterInstance, deps: PublicAppDeps, authorize: Authorize): void {
  const { reads } = deps;
  router.post('/v1/ingest/sessions', async (ctx) => {
    const authenticate = () => authorize(ctx, 'events:write');
    const caller = { principal: authenticate(), reauthenticate: authenticate };
    const strict = isStrict(ctx);
    const answer = await withLimitedBody(ctx, deps, caller, (principal, body) =>
      registerSession(reads, principal, body, strict),
    );
    ctx.status = answer.status;
    setHandlingHeaders(ctx, strict ? 'strict' : undefined, unknownOf(answer.ignored));
    setSkewHeader(ctx, answer.warned);
    ctx.body = answer.body;
  });
  router.get('/v1/sessions/:id', async (ctx) =>
    json(ctx, await readSession(reads, authorize(ctx, 'read'), param(ctx))),
  );
  router.get('/v1/builds', async (ctx) => {
    ctx.body = await readBuilds(reads, authorize(ctx, 'read'), query(ctx));
  });
  router.get('/v1/players/:externalId/sessions', async (ctx) => {
    const externalId = ctx.params['externalId'] ?? '';
    ctx.body = await readPlayerSessions(reads, authorize(ctx, 'read'), externalId, query(ctx));
  });
}

export function reportRoutes(
  router: RouterInstance,
  deps: BodyDeps & { reports: ReportDeps; reads: ReadContext },
  authorize: Authorize,
): void {
  const { reports, reads } = deps;
  router.post('/v1/ingest/reports', async (ctx) => {
    const authenticate = () => authorize(ctx, 'reports:write');
    const caller = { principal: authenticate(), reauthenticate: authenticate };
    const strict = isStrict(ctx);
    const answer = await withLimitedBody(ctx, deps, caller, (principal, body) =>
      createReport(reports, principal, body, strict),
    );
    setHandlingHeaders(ctx, strict ? 'strict' : undefined, unknownOf(answer.ignored));
    setSkewHeader(ctx, answer.warned);
    ctx.state['accepted'] = answer.accepted;
    ctx.status = answer.isReplay ? 200 : 201;
    ctx.set('Location', `/v1/reports/${answer.id}`);
    if (answer.isReplay) ctx.set('Idempotency-Replayed', 'true');
    json(ctx, answer.body);
  });
  router.get('/v1/reports', async (ctx) => {
    ctx.body = await listReports(reads, authorize(ctx, 'read'), query(ctx));
  });
  router.get('/v1/reports/:id', async (ctx) =>
    json(ctx, await readReport(reads, authorize(ctx, 'read'), param(ctx))),
  );
  router.get('/v1/reports/:id/events', async (ctx) =>
    json(ctx, await readReportEvents(reads, authorize(ctx, 'read'), param(ctx), query(ctx))),
  );
  router.delete('/v1/reports/:id', async (ctx) => {
    await retractReport(reports, authorize(ctx, 'reports:write'), param(ctx));
    ctx.status = 204;
  });
}

function setSkewHeader(ctx: RouterContext, warned: readonly SkewedTime[]): void {
  ctx.set(skewHeader(warned));
  ctx.state['warned'] = warned;
}

function json(ctx: RouterContext, body: Buffer | string): void {
  ctx.body = body;
  ctx.type = 'application/json';
}

function param(ctx: RouterContext): string {
  return ctx.params['id'] ?? '';
}

/** Returns the query parameters. If a parameter is repeated, the last value counts. */
function query(ctx: RouterContext): Readonly<Record<string, string | undefined>> {
  const texts = Object.entries(ctx.query).map(([name, value]) => [
    name,
    Array.isArray(value) ? value.at(-1) : value,
  ]);
  return Object.fromEntries(texts);
}
