/** The listener that games see: the contract's endpoint and those that it implies. */
import { Router, type RouterContext } from '@koa/router';
import type { Directory, Principal } from '@questlog/runtime/directory/directory';
import type { Clock } from '@questlog/runtime/process/clock';
import { messageOf } from '@questlog/runtime/process/errors';
import type { Logger } from '@questlog/runtime/process/logger';
import type { Metrics } from '@questlog/runtime/process/metrics';
import { SessionInput } from '@questlog/schemas/http/session';
import type { Scope } from '@questlog/schemas/topics/directoryEntry';
import type { Revision } from '@questlog/schemas/topics/eventsAccepted';
import { canonicalUuid, isUuidV7 } from '@questlog/schemas/uuid';
import Koa from 'koa';
import { type IngestDeps, ingest } from '../events/ingestEvents.ts';
import { type ReadDeps, readEvent, readQuota, readSession, readSessionEvents } from '../events/readEvents.ts';
import { streamLinkedEvents } from '../linkedEventStreamRoute.ts';
import type { LinkedEventStreams } from '../linkedEvents/streams.ts';
import { Rejected } from '../rejected.ts';
import type { ReportDeps } from '../reports/createReport.ts';
import type { ReportReadDeps } from '../reports/readReports.ts';
import { registerSession } from '../sessions/registerSession.ts';
import { authenticate } from './authenticate.ts';
import { openApi } from './openapi/openapi.ts';
import { problems } from './problems.ts';
import { type BodyBudget, withBody } from './readBody.ts';
import { reportRoutes } from './reportRoutes.ts';
import { checkedBody, json, jsonBody, noRoute, pageQuery, param } from './route.ts';

export interface PublicAppDeps {
  readonly directory: Directory;
  readonly ingest: IngestDeps;
  readonly reads: ReadDeps;
  readonly reports: ReportDeps & ReportReadDeps;
  readonly linkedEvents: LinkedEventStreams;
  readonly bodies: BodyBudget;
  readonly defaultRevision: Revision;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

export function publicApp(deps: PublicAppDeps): Koa {
  const { reads, logger, metrics } = deps;
  const router = new Router({ sensitive: true });
  const as = (ctx: RouterContext, scope: Scope): Principal =>
    authenticate(ctx.get('Authorization'), scope, {
      directory: deps.directory,
      nowMs: deps.clock.now(),
      defaultRevision: deps.defaultRevision,
    });
  const sessionBody = checkedBody(SessionInput);
  const document = JSON.stringify(openApi(deps.defaultRevision));

  router.post('/v1/ingest/events', (ctx) => ingestEvents(deps, ctx, as(ctx, 'events:write')));
  router.post(
    '/v1/sessions',
    (ctx, next) => {
      ctx.state['principal'] = as(ctx, 'events:write');
      return next();
    },
    jsonBody(),
    async (ctx) => {
      const principal: Principal = ctx.state['principal'];
      const answer = await registerSession(deps.reads, principal, sessionBody(ctx.request.body));
      ctx.status = answer.status;
      ctx.body = answer.body;
    },
  );
  router.get('/v1/events/:id', async (ctx) => json(ctx, await readEvent(reads, as(ctx, 'read'), param(ctx))));
  router.get('/v1/sessions/:id', async (ctx) => {
    ctx.body = await readSession(reads, as(ctx, 'read'), param(ctx));
  });
  router.get('/v1/sessions/:id/events', async (ctx) => {
    json(ctx, await readSessionEvents(reads, as(ctx, 'read'), param(ctx), pageQuery(ctx)));
  });
  reportRoutes(router, deps, as);
  router.get('/v1/quota', async (ctx) => {
    ctx.body = await readQuota(reads, as(ctx, 'read'));
  });
  router.get('/v1/linked-events', (ctx) => streamLinkedEvents(deps.linkedEvents, ctx, () => as(ctx, 'read')));
  router.get('/openapi.json', (ctx) => json(ctx, document));

  const app = new Koa();
  app.on('error', (error) => logger.warn('answer_failed', { cause: messageOf(error) }));
  app.use(problems(logger, metrics));
  app.use(router.routes());
  app.use(noRoute(router));
  return app;
}

async function ingestEvents(deps: PublicAppDeps, ctx: RouterContext, principal: Principal): Promise<void> {
  const idempotencyKey = idempotencyKeyOf(ctx.get('Idempotency-Key'));
  const isLenient = /(?:^|[,;\s])handling\s*=\s*"?lenient"?(?:$|[,;\s])/i.test(ctx.get('Prefer'));
  const requestId = String(ctx.response.get('X-Request-Id'));
  const answer = await withBody(ctx.req, deps.bodies, (body) =>
    ingest(deps.ingest, { principal, body, idempotencyKey, isLenient, requestId }),
  );
  ctx.status = answer.status;
  if (answer.isReplay) ctx.set('Idempotency-Replayed', 'true');
  if (isLenient) ctx.set('Preference-Applied', 'handling=lenient');
  json(ctx, answer.body);
}

/** A bare UUIDv7, or quoted as the draft of the header's standard has it. */
function idempotencyKeyOf(header: string): string | undefined {
  if (header === '') return undefined;
  const key = canonicalUuid(header.replace(/^"(.*)"$/, '$1'));
  if (key !== undefined && isUuidV7(key)) return key;
  throw new Rejected('invalid_idempotency_key', 'the Idempotency-Key must be a UUIDv7 (RFC 9562)');
}
