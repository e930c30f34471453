/** Builds the operators' listener with the routes for tenants, projects, tokens, SQL, health, and metrics. */
import { timingSafeEqual } from 'node:crypto';
import { isIPv6 } from 'node:net';
import { Router, type RouterContext, type RouterInstance } from '@koa/router';
import type { AddressedStore, Store } from '@questlog/runtime/clickhouse/store';
import type { ProjectionProgress } from '@questlog/runtime/consumer/projectionProgress';
import { sha256Hex } from '@questlog/runtime/directory/directory';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import { bearerToken } from '@questlog/runtime/http/bearerToken';
import type { UnauthenticatedLimit } from '@questlog/runtime/http/limits/unauthenticated';
import { problems } from '@questlog/runtime/http/problems';
import { Rejected } from '@questlog/runtime/http/rejected';
import { checkedBody, jsonBody, noRoute } from '@questlog/runtime/http/route';
import type { Log } from '@questlog/runtime/log/log';
import type { Clock } from '@questlog/runtime/process/clock';
import { messageOf, Unavailable } from '@questlog/runtime/process/errors';
import { type HealthDeps, healthRoutes } from '@questlog/runtime/process/healthRoutes';
import { KeyedMutex } from '@questlog/runtime/process/keyedMutex';
import type { UploadStore } from '@questlog/runtime/uploads/uploadStore';
import {
  ProjectInput,
  ProjectPatch,
  SqlInput,
  TenantInput,
  TenantPatch,
  TokenInput,
  TokenRotation,
} from '@questlog/schemas/http/admin';
import { ErasureInput } from '@questlog/schemas/http/erasure';
import { LinkRetryInput } from '@questlog/schemas/http/report';
import { notAdminToken } from '@questlog/schemas/tokenPrefixes';
import Koa, { type Middleware } from 'koa';
import type { TSchema } from 'typebox';
import type { Audit } from '../audit/audit.ts';
import { auditRoute } from '../audit/auditRoute.ts';
import { deadLetterRoutes } from '../deadLetters/deadLetterRoutes.ts';
import type { DeadLetterAdmin } from '../deadLetters/deadLetters.ts';
import { administer } from '../directory/administer.ts';
import { projectSwitches, type TaggedSwitches } from '../directory/projectSwitches.ts';
import { sendTestEvent, type TestEventDeps } from '../directory/testEvent.ts';
import type { Erasures } from '../erasures/erasures.ts';
import { ledgerRoutes } from '../ledger/ledgerRoutes.ts';
import type { LedgerDeps } from '../ledger/readLedger.ts';
import type { Verifier } from '../ledger/verify.ts';
import type { OperationsMetrics } from '../metrics.ts';
import type { AppendReport } from '../reports/appendReport.ts';
import { retractReport } from '../reports/retractReport.ts';
import { retryLinks } from '../reports/retryLinks.ts';
import { costRoute } from '../retention/cost.ts';
import { runSql, SQL_LIMITS } from '../sql/runSql.ts';
import { adminApi } from './openapi/openapiAdmin.ts';
import { uploadForOperators } from './uploadRoute.ts';

export interface AdminAppDeps extends HealthDeps {
  readonly metrics: OperationsMetrics;
  readonly directory: DirectoryHandle;
  readonly store: Store;
  readonly reader: AddressedStore | undefined;
  readonly log: Log;
  readonly reportProjection: ProjectionProgress;
  readonly appendReport: AppendReport;
  readonly uploads: UploadStore | undefined;
  readonly clock: Clock;
  readonly verifier: Verifier;
  readonly ledger: LedgerDeps;
  readonly deadLetters: DeadLetterAdmin;
  readonly audit: Audit;
  readonly erasures: Erasures;
  readonly gamesUrl: string;
  readonly adminToken: string;
  readonly unauthenticated: Pick<UnauthenticatedLimit, 'count'>;
  /** Allowed host names in the `Host` header. The loopback names and the connection's address are always allowed. */
  readonly hosts: readonly string[];
  readonly pages: AdminPages;
}

/** Routes that the web console adds to the operators' listener. */
export interface AdminPages {
  /** Middleware that runs before the admin token is checked. */
  readonly signIn: Middleware;
  /** Routes below `/admin/`. All of these routes require the admin token. */
  readonly router: RouterInstance;
}

type Serialize = <T>(work: () => Promise<T>) => Promise<T>;

/** Paths that supervisors and Prometheus can request with any `Host` header. */
const ANY_HOST = new Set(['/healthz', '/readyz', '/metrics']);
const ADMIN_PREFIX = 'admin';
const LOOPBACK = ['localhost', '127.0.0.1', '::1'];

export function adminApp(deps: AdminAppDeps): Koa {
  const { logger, metrics } = deps;
  const router = new Router({ sensitive: true });
  const operations = administer(deps.directory, deps.clock);
  // Runs the directory changes of this process one after the other, because concurrent changes can conflict.
  const changes = new KeyedMutex();
  const serialize: Serialize = (work) => changes.run('', work);
  entityRoutes(router, operations, serialize);
  switchRoutes(router, deps, serialize);
  testEventRoute(router, { ...deps, tokens: operations });
  retractRoute(router, deps);
  retryRoute(router, deps);
  sqlRoute(router, deps.reader);
  ledgerRoutes(router, deps);
  deadLetterRoutes(router, deps.deadLetters);
  auditRoute(router, deps.store);
  costRoute(router, { ...deps, projects: deps.directory.current.projects });
  erasureRoutes(router, deps.erasures);

  documentRoute(router);
  router.get('/admin/uploads/:projectId/:uploadId', uploadForOperators(deps));
  healthRoutes(router, deps);

  const app = new Koa();
  app.on('error', (error) => logger.warn('answer_failed', { cause: messageOf(error) }));
  app.use(problems(logger, metrics));
  // Counts a request with missing or wrong credentials. Too many such requests block the client address.
  app.use((ctx, next) => next().finally(() => deps.unauthenticated.count(ctx.req)));
  app.use(requireKnownHost(deps.hosts));
  app.use(deps.audit.rejections(router));
  app.use(deps.pages.signIn);
  app.use(requireAdminToken(deps.adminToken));
  app.use(deps.audit.changes(router));
  router.use(deps.pages.router.routes());
  app.use(router.routes());
  app.use(noRoute(router, { otherListenerHint: gamesHint }));
  return app;
}

/** Returns a hint for a game that sends its requests to the operators' port. */
function gamesHint(path: string): string | undefined {
  if (!/^\/v1\//.test(path)) return undefined;
  return "this is the operators' listener; games use port 8080 unless QUESTLOG_PORT is set";
}

function entityRoutes(
  router: RouterInstance,
  operations: ReturnType<typeof administer>,
  serialize: Serialize,
): void {
  const list = (path: string, rows: () => object[]): void => {
    router.get(path, (ctx) => {
      ctx.body = rows();
    });
  };
  const write = <T extends TSchema>(
    method: 'post' | 'patch',
    path: string,
    schema: T,
    run: (
      body: ReturnType<ReturnType<typeof checkedBody<T>>>,
      id: string,
    ) => Promise<{ status: number; body: object }>,
  ): void => {
    const checked = checkedBody(schema);
    router[method](path, jsonBody(), async (ctx) => {
      const { status, body } = await serialize(() => run(checked(ctx.request.body), ctx.params['id'] ?? ''));
      ctx.status = status;
      ctx.body = body;
    });
  };

  list('/admin/tenants', operations.tenants);
  list('/admin/projects', operations.projects);
  list('/admin/tokens', operations.tokens);
  write('post', '/admin/tenants', TenantInput, operations.createTenant);
  write('patch', '/admin/tenants/:id', TenantPatch, operations.patchTenant);
  write('post', '/admin/projects', ProjectInput, operations.createProject);
  write('patch', '/admin/projects/:id', ProjectPatch, operations.patchProject);
  write('post', '/admin/tokens', TokenInput, operations.createToken);
  write('post', '/admin/tokens/:id/rotate', TokenRotation, operations.rotateToken);
  router.delete('/admin/tokens/:id', async (ctx) => {
    await operations.revokeToken(ctx.params['id'] ?? '');
    ctx.status = 204;
  });
}

function documentRoute(router: RouterInstance): void {
  // The first request creates the OpenAPI document, so that the process starts faster.
  let document: string | undefined;
  router.get('/openapi.json', (ctx) => {
    document ??= JSON.stringify(adminApi());
    ctx.body = document;
    ctx.type = 'application/json';
  });
}

function testEventRoute(router: RouterInstance, deps: TestEventDeps): void {
  router.post('/admin/projects/:id/test-event', async (ctx) => {
    ctx.body = await sendTestEvent(deps, ctx.params['id'] ?? '', ctx.response.get('X-Request-Id'));
    ctx.status = 201;
  });
}

function switchRoutes(router: RouterInstance, deps: AdminAppDeps, serialize: Serialize): void {
  const { list, replace } = projectSwitches(deps.directory, deps.clock);
  const answer = (ctx: RouterContext, { switches, etag }: TaggedSwitches): void => {
    ctx.set('ETag', etag);
    ctx.body = switches;
  };
  router.get('/admin/projects/:id/switches', (ctx) => answer(ctx, list(ctx.params['id'] ?? '')));
  router.put('/admin/projects/:id/switches', jsonBody(), async (ctx) => {
    const { id = '' } = ctx.params;
    answer(ctx, await serialize(() => replace(id, ctx.request.body, ctx.get('If-Match'))));
  });
}

function retractRoute(router: RouterInstance, deps: AdminAppDeps): void {
  router.delete('/admin/projects/:id/reports/:reportId', async (ctx) => {
    const { id = '', reportId = '' } = ctx.params;
    await retractReport(deps, id, reportId);
    ctx.status = 204;
  });
}

function retryRoute(router: RouterInstance, deps: AdminAppDeps): void {
  const retryBody = checkedBody(LinkRetryInput);
  router.post('/admin/links/retry', jsonBody(), async (ctx) => {
    ctx.body = await retryLinks(deps, retryBody(ctx.request.body));
  });
}

function erasureRoutes(router: RouterInstance, erasures: Erasures): void {
  // An omitted session id means the whole project. A null session id can come from a failed lookup, and is rejected.
  const input = checkedBody(ErasureInput, { isExact: true });
  router.get('/admin/erasures', (ctx) => {
    ctx.body = erasures.list();
  });
  router.post('/admin/erasures', jsonBody(), async (ctx) => {
    ctx.body = await erasures.request(input(ctx.request.body));
    ctx.status = 202;
  });
  router.get('/admin/erasures/:id', (ctx) => {
    ctx.body = erasures.find(ctx.params['id'] ?? '');
  });
}

function sqlRoute(router: RouterInstance, reader: AddressedStore | undefined): void {
  const sqlBody = checkedBody(SqlInput);
  let running = 0;
  router.post('/admin/sql', jsonBody(), async (ctx) => {
    const input = sqlBody(ctx.request.body);
    if (running >= SQL_LIMITS.maxConcurrent)
      throw new Unavailable(`${SQL_LIMITS.maxConcurrent} SQL queries are already running`);
    const closed = new AbortController();
    ctx.res.once('close', () => closed.abort());
    running++;
    try {
      const { contentType, body } = await runSql(reader, input, closed.signal);
      ctx.body = body;
      ctx.set('Content-Type', contentType);
    } finally {
      running--;
    }
  });
}

/** Prevents DNS rebinding. In this attack, a web page sends requests to this listener under the page's host name. */
function requireKnownHost(hosts: readonly string[]): Middleware {
  const allowed = new Set([...LOOPBACK, ...hosts].map(hostName));
  return (ctx, next) => {
    const host = hostName(ctx.get('Host'));
    const isAllowed = allowed.has(host) || host === hostName(ctx.socket.localAddress ?? '');
    if ((isAllowed && host !== '') || ANY_HOST.has(ctx.path)) return next();
    const detail = "the Host header must be this listener's address, or one of QUESTLOG_ADMIN_ALLOWED_HOSTS";
    const games = gamesHint(ctx.path);
    throw new Rejected('misdirected_request', games === undefined ? detail : `${detail}; ${games}`);
  };
}

function hostName(host: string): string {
  const address = host.replace(/^::ffff:/, '');
  return URL.parse(`http://${isIPv6(address) ? `[${address}]` : address}`)?.hostname ?? '';
}

function requireAdminToken(adminToken: string): Middleware {
  const expected = Buffer.from(sha256Hex(adminToken));
  return (ctx, next) => {
    if (ctx.path.split('/')[1] !== ADMIN_PREFIX) return next();
    const token = bearerToken(ctx.get('Authorization'));
    if (timingSafeEqual(Buffer.from(sha256Hex(token)), expected)) return next();
    throw new Rejected('unauthorized', notAdminToken(token), {
      headers: { 'WWW-Authenticate': 'Bearer realm="questlog-admin", error="invalid_token"' },
    });
  };
}
