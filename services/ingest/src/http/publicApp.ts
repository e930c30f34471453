/** The listener that games see: the contract's endpoint and those that it implies. */

import { Router, type RouterContext, type RouterInstance } from '@koa/router';
import { type Directory, isHeldBack, type Principal } from '@questlog/runtime/directory/directory';
import type { Clock } from '@questlog/runtime/process/clock';
import { messageOf } from '@questlog/runtime/process/errors';
import type { Logger } from '@questlog/runtime/process/logger';
import type { Scope } from '@questlog/schemas/topics/directoryEntry';
import type { Revision } from '@questlog/schemas/topics/eventsAccepted';
import { canonicalUuid, isUuidV7 } from '@questlog/schemas/uuid';
import Koa from 'koa';
import { unknownOf } from '../core/unknownFields.ts';
import { type IngestDeps, ingest } from '../events/ingestEvents.ts';
import { listEvents, type ReadDeps, readEvent, readQuota, readSessionEvents } from '../events/readEvents.ts';
import type { Received } from '../ledger/received.ts';
import type { AddressLimits } from '../limits/addresses.ts';
import type { Limits } from '../limits/limits.ts';
import { isStreamId } from '../linkedEvents/core/linkedEventToken.ts';
import type { LinkedEventStreams, WantedPlace } from '../linkedEvents/streams.ts';
import type { IngestMetrics } from '../metrics.ts';
import { Rejected } from '../rejected.ts';
import type { Rejects } from '../rejects/rejects.ts';
import { createReport, type ReportDeps } from '../reports/createReport.ts';
import { listReports } from '../reports/listReports.ts';
import { type ReportReadDeps, readReport, readReportEvents, retractReport } from '../reports/readReports.ts';
import {
  readBuilds,
  readPlayerSessions,
  readSession,
  type SessionReadDeps,
} from '../sessions/readSessions.ts';
import { registerSession } from '../sessions/registerSession.ts';
import type { JwtVerifier } from '../tokens/jwt/jwtVerifier.ts';
import type { TokenUses } from '../tokens/tokenUses.ts';
import { authenticate, authenticateAgain, checkScope, verifiesJwts } from './authenticate.ts';
import { type AllowedOrigins, headersOfEveryAnswer, listedOrigins, preflights } from './cors.ts';
import { docsRoutes, rootToDocs } from './openapi/docsPage.ts';
import { openApi } from './openapi/openapi.ts';
import { handlingIn, isStrict, tellHandling } from './prefer.ts';
import { type Judged, keptIfWrong, problems } from './problems.ts';
import { type Bodies, withBody } from './readBody.ts';
import { noRoute } from './route.ts';
import { type UploadRouteDeps, uploadRoutes } from './uploadRoutes.ts';

export interface PublicAppDeps {
  readonly directory: Directory;
  readonly ingest: IngestDeps;
  readonly reads: ReadDeps & SessionReadDeps;
  readonly reports: ReportDeps & ReportReadDeps;
  readonly uploads: UploadRouteDeps;
  readonly linkedEvents: LinkedEventStreams;
  readonly rejects: Rejects;
  readonly received: Received;
  readonly limits: Limits;
  readonly addresses: AddressLimits;
  /** Undefined where JWTs are not set up. */
  readonly jwts?: JwtVerifier | undefined;
  readonly uses: Pick<TokenUses, 'note'>;
  readonly bodies: Bodies;
  readonly defaultRevision: Revision;
  readonly corsOrigins: AllowedOrigins;
  readonly hasDocs: boolean;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: IngestMetrics;
}

export function publicApp(deps: PublicAppDeps): Koa {
  const { reads, corsOrigins, logger, metrics } = deps;
  const router = new Router({ sensitive: true });
  const as = callerOf(deps);
  let document: string | undefined;

  router.post('/v1/ingest/events', (ctx) => ingestEvents(deps, ctx, () => as(ctx, 'events:write')));
  router.get('/v1/events', async (ctx) => json(ctx, await listEvents(reads, as(ctx, 'read'), query(ctx))));
  router.get('/v1/events/:id', async (ctx) => json(ctx, await readEvent(reads, as(ctx, 'read'), param(ctx))));
  router.get('/v1/sessions/:id/events', async (ctx) => {
    json(ctx, await readSessionEvents(reads, as(ctx, 'read'), param(ctx), query(ctx)));
  });
  sessionRoutes(router, deps, as);
  uploadRoutes(router, deps.uploads, as);
  reportRoutes(router, deps, as);
  router.get('/v1/quota', async (ctx) => {
    ctx.body = await readQuota(reads, as(ctx, 'read'));
  });
  router.get('/v1/linked-events', (ctx) => streamLinkedEvents(deps.linkedEvents, ctx, () => as(ctx, 'read')));
  router.get('/openapi.json', (ctx) => {
    document ??= JSON.stringify(openApi(deps.defaultRevision));
    json(ctx, document);
  });
  if (deps.hasDocs) docsRoutes(router);
  // A game asks whether it reaches anybody at all, whatever its token is worth.
  router.get('/health', (ctx) => {
    ctx.body = { status: 'ok' };
  });

  const app = new Koa();
  app.on('error', (error) => logger.warn('answer_failed', { cause: messageOf(error) }));
  app.use(problems(logger, metrics, headersOfEveryAnswer(corsOrigins), deps));
  if (corsOrigins !== '*') app.use(listedOrigins(corsOrigins));
  if (deps.jwts !== undefined) app.use(verifiesJwts(deps.jwts));
  app.use(router.routes());
  if (corsOrigins.length > 0) app.use(preflights(router));
  if (deps.hasDocs) app.use(rootToDocs);
  app.use(noRoute(router, ofOperators));
  return app;
}

function callerOf(deps: PublicAppDeps): (ctx: RouterContext, scope: Scope) => Principal {
  const { directory, defaultRevision, clock, limits, addresses, uses } = deps;
  return (ctx, scope) => {
    const known: Principal | undefined = ctx.state['principal'];
    const now = { directory, defaultRevision, nowMs: clock.now() };
    const principal =
      known === undefined
        ? authenticate(ctx.get('Authorization'), now, ctx.state['jwt'])
        : authenticateAgain(known, now);
    ctx.state['principal'] = principal;
    checkScope(principal, scope);
    // Behind its body a request is asked once more who sends it, and counts once.
    if (known !== undefined) return principal;
    if (principal.tokenId !== null && principal.jwtEndsAtMs === undefined) uses.note(principal.tokenId);
    if (principal.addressRequestsPerSecond !== undefined) addresses.admit(principal, ctx.req);
    if (scope !== 'read' && isHeldBack(principal)) limits.admit(principal, ctx.headers);
    return principal;
  };
}

/** A probe or a scraper that was given the games' port. */
function ofOperators(path: string): string | undefined {
  if (!/^\/(healthz|readyz|metrics|admin|login)(\/|$)/.test(path)) return undefined;
  return 'the listener of operators has it (QUESTLOG_ADMIN_PORT, 8081 unless set); GET /health answers here';
}

async function ingestEvents(
  deps: PublicAppDeps,
  ctx: RouterContext,
  authenticate: () => Principal,
): Promise<void> {
  const asked = { principal: authenticate(), again: authenticate };
  const idempotencyKey = idempotencyKeyOf(ctx.get('Idempotency-Key'));
  const prefer = ctx.get('Prefer');
  const handling = prefer === '' ? undefined : handlingIn(prefer);
  const wanted = { isLenient: handling === 'lenient', isStrict: handling === 'strict' };
  const requestId = String(ctx.response.get('X-Request-Id'));
  const answer = await withLimitedBody(ctx, deps, asked, (principal, body) =>
    ingest(deps.ingest, { principal, body, idempotencyKey, ...wanted, requestId }),
  );
  ctx.set({ ...answer.headers });
  ctx.status = answer.status;
  ctx.state['accepted'] = answer.accepted;
  if (answer.isReplay) ctx.set('Idempotency-Replayed', 'true');
  const { ignored } = answer;
  if (handling !== undefined || ignored.length > 0) tellHandling(ctx, handling, ignored);
  json(ctx, answer.body);
}

/**
 * Has the body worked on unless it is too large for the limits; keeps it where something is wrong in it.
 * @param principal who asked; behind the body, which may take its time, that is asked `again`: a token that was revoked
 *   meanwhile writes nothing more.
 */
function withLimitedBody<T extends Judged>(
  ctx: RouterContext,
  { bodies, limits }: Pick<PublicAppDeps, 'bodies' | 'limits'>,
  { principal: { tenant }, again }: { principal: Principal; again: () => Principal },
  work: (principal: Principal, body: Buffer) => Promise<T>,
): Promise<T> {
  return withBody(ctx.req, tenant.id, bodies, (body) => {
    const principal = again();
    if (isHeldBack(principal)) limits.admitBody(principal, ctx.headers, body.length);
    return keptIfWrong(ctx.state, body, work(principal, body));
  });
}

/** A bare UUIDv7, or quoted as the draft of the header's standard has it. */
function idempotencyKeyOf(header: string): string | undefined {
  if (header === '') return undefined;
  const key = canonicalUuid(header.replace(/^"(.*)"$/, '$1'));
  if (key !== undefined && isUuidV7(key)) return key;
  throw new Rejected('invalid_idempotency_key', 'the Idempotency-Key must be a UUIDv7 (RFC 9562)');
}

/**
 * @param authenticate runs again as long as the stream does.
 * @throws Rejected, Unavailable: before the first byte.
 */
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
  if (stream === undefined) throw notAToken(nameOfPosition(ctx));
  ctx.respond = false;
}

/** A client that lost its connection repeats its first URL, and says in the header how far it came since. */
function wantedPosition(ctx: RouterContext): WantedPlace {
  const name = nameOfPosition(ctx);
  const text = name === 'from' ? query(ctx)['from'] : ctx.get(LAST_EVENT_ID);
  if (name === 'from' && (text === undefined || text === 'start')) return 'start';
  if (name === 'from' && text === 'end') return 'end';
  if (text === undefined || !isStreamId(text)) throw notAToken(name);
  return { id: text };
}

function nameOfPosition(ctx: RouterContext): 'from' | typeof LAST_EVENT_ID {
  return ctx.get(LAST_EVENT_ID) === '' ? 'from' : LAST_EVENT_ID;
}

function notAToken(name: string): Rejected {
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

/** The endpoints of sessions, and of the builds and players that they tell of. */
function sessionRoutes(
  router: RouterInstance,
  deps: PublicAppDeps,
  as: (ctx: RouterContext, scope: Scope) => Principal,
): void {
  const { reads } = deps;
  router.post('/v1/ingest/sessions', async (ctx) => {
    const authenticate = () => as(ctx, 'events:write');
    const asked = { principal: authenticate(), again: authenticate };
    const strict = isStrict(ctx);
    const answer = await withLimitedBody(ctx, deps, asked, (principal, body) =>
      registerSession(reads, principal, body, strict),
    );
    ctx.status = answer.status;
    tellHandling(ctx, strict ? 'strict' : undefined, unknownOf(answer.ignored));
    ctx.body = answer.body;
  });
  router.get('/v1/sessions/:id', async (ctx) =>
    json(ctx, await readSession(reads, as(ctx, 'read'), param(ctx))),
  );
  router.get('/v1/builds', async (ctx) => {
    ctx.body = await readBuilds(reads, as(ctx, 'read'), query(ctx));
  });
  router.get('/v1/players/:externalId/sessions', async (ctx) => {
    const externalId = ctx.params['externalId'] ?? '';
    ctx.body = await readPlayerSessions(reads, as(ctx, 'read'), externalId, query(ctx));
  });
}

/** The endpoints of bug reports. */
export function reportRoutes(
  router: RouterInstance,
  deps: { reports: ReportDeps & ReportReadDeps; bodies: Bodies; limits: Limits },
  as: (ctx: RouterContext, scope: Scope) => Principal,
): void {
  const { reports } = deps;
  router.post('/v1/ingest/reports', async (ctx) => {
    const authenticate = () => as(ctx, 'reports:write');
    const asked = { principal: authenticate(), again: authenticate };
    const strict = isStrict(ctx);
    const answer = await withLimitedBody(ctx, deps, asked, (principal, body) =>
      createReport(reports, principal, body, strict),
    );
    tellHandling(ctx, strict ? 'strict' : undefined, unknownOf(answer.ignored));
    ctx.state['accepted'] = answer.accepted;
    ctx.status = answer.isReplay ? 200 : 201;
    ctx.set('Location', `/v1/reports/${answer.id}`);
    if (answer.isReplay) ctx.set('Idempotency-Replayed', 'true');
    json(ctx, answer.body);
  });
  router.get('/v1/reports', async (ctx) => {
    ctx.body = await listReports(reports, as(ctx, 'read'), query(ctx));
  });
  router.get('/v1/reports/:id', async (ctx) =>
    json(ctx, await readReport(reports, as(ctx, 'read'), param(ctx))),
  );
  router.get('/v1/reports/:id/events', async (ctx) =>
    json(ctx, await readReportEvents(reports, as(ctx, 'read'), param(ctx), query(ctx))),
  );
  router.delete('/v1/reports/:id', async (ctx) => {
    await retractReport(reports, as(ctx, 'reports:write'), param(ctx));
    ctx.status = 204;
  });
}

/** Answers JSON that is text already. */
function json(ctx: RouterContext, body: Buffer | string): void {
  ctx.body = body;
  ctx.type = 'application/json';
}

function param(ctx: RouterContext): string {
  return ctx.params['id'] ?? '';
}

/** Of a parameter that stands there several times the last one counts. */
function query(ctx: RouterContext): Readonly<Record<string, string | undefined>> {
  const texts = Object.entries(ctx.query).map(([name, value]) => [
    name,
    Array.isArray(value) ? value.at(-1) : value,
  ]);
  return Object.fromEntries(texts);
}
