/** Builds the operators' listener with the routes for tenants, projects, tokens, SQL, health, and metrics. */
import { timingSafeEqual } from 'node:crypto';
import { isIPv6 } from 'node:net';
import { Router, type RouterContext, type RouterInstance } from '@koa/router';
import type { AddressedStore, Store } from '@questlog/runtime/clickhouse/store';
import { sha256Hex } from '@questlog/runtime/directory/directory';
import { bearerToken } from '@questlog/runtime/http/bearerToken';
import { type HealthDeps, healthHandlers } from '@questlog/runtime/http/healthRoutes';
import type { UnauthenticatedLimit } from '@questlog/runtime/http/limits/unauthenticated';
import { openApiDocument } from '@questlog/runtime/http/openapi/openApiDocument';
import { problems } from '@questlog/runtime/http/problems';
import { Rejected } from '@questlog/runtime/http/rejected';
import { noRoute } from '@questlog/runtime/http/route';
import { addRoutes, firstQuery, type Handlers, isOnlyIn, koaPath } from '@questlog/runtime/http/routes';
import type { Log } from '@questlog/runtime/log/log';
import type { ProjectionProgress } from '@questlog/runtime/log/projection/projection';
import { messageOf, Unavailable } from '@questlog/runtime/process/errors';
import { KeyedMutex } from '@questlog/runtime/process/keyedMutex';
import type { UploadStore } from '@questlog/runtime/uploads/uploadStore';
import { SQL_LIMITS } from '@questlog/schemas/http/admin';
import type { DIRECTORY } from '@questlog/schemas/http/operations/directory';
import { GAMES } from '@questlog/schemas/http/operations/games';
import { HEALTH } from '@questlog/schemas/http/operations/health';
import type { BACKUPS } from '@questlog/schemas/http/operations/jobs';
import { routeOf } from '@questlog/schemas/http/operations/operation';
import { OPERATORS, OPERATORS_API } from '@questlog/schemas/http/operations/operators';
import { notAdminToken } from '@questlog/schemas/tokenPrefixes';
import type { VisibleData } from '@questlog/schemas/visibility';
import Koa, { type Middleware } from 'koa';
import type { Audit } from '../audit/audit.ts';
import { readAudit } from '../audit/readAudit.ts';
import { clusterHandlers } from '../clickhouse/clusterHandlers.ts';
import { nodeHandlers } from '../clickhouse/nodeHandlers.ts';
import { deadLetterHandlers } from '../deadLetters/deadLetterHandlers.ts';
import type { DeadLetterAdmin } from '../deadLetters/deadLetters.ts';
import { administer } from '../directory/administer.ts';
import { projectSwitches, type TaggedSwitches } from '../directory/projectSwitches.ts';
import { type ReaderDeps, readerOperations } from '../directory/readers.ts';
import { sendTestEvent } from '../directory/testEvent.ts';
import type { Erasures } from '../erasures/erasures.ts';
import { exportHandlers } from '../exports/exportHandlers.ts';
import { exportJobs } from '../exports/exportJobs.ts';
import { ledgerHandlers } from '../ledger/ledgerHandlers.ts';
import type { LedgerDeps } from '../ledger/readLedger.ts';
import type { Verifier } from '../ledger/verify.ts';
import type { OperationsMetrics } from '../metrics.ts';
import type { AppendReport } from '../reports/appendReport.ts';
import { retractReport } from '../reports/retractReport.ts';
import { retryLinks } from '../reports/retryLinks.ts';
import { readRetention } from '../retention/cost.ts';
import { runSql } from '../sql/runSql.ts';
import { uploadHandler } from './uploadHandler.ts';

export interface AdminAppDeps extends HealthDeps, ReaderDeps {
  readonly metrics: OperationsMetrics;
  readonly store: Store;
  readonly reader: AddressedStore | undefined;
  readonly log: Log;
  readonly visible: VisibleData;
  readonly reportProjection: ProjectionProgress;
  readonly appendReport: AppendReport;
  readonly uploads: UploadStore | undefined;
  readonly verifier: Verifier;
  readonly ledger: LedgerDeps;
  readonly deadLetters: DeadLetterAdmin;
  readonly audit: Audit;
  readonly erasures: Erasures;
  readonly gamesUrl: string;
  readonly adminToken: string;
  readonly unauthenticated: Pick<UnauthenticatedLimit, 'count'>;
  /** Further host names that the `Host` header can have. The loopback names and the connection's address are always allowed. */
  readonly hosts: readonly string[];
  readonly pages: AdminPages;
}

/** Routes that the web console adds to the operators' listener. */
export interface AdminPages {
  /** Middleware for the sign-in. Runs before the admin token is checked. */
  readonly signIn: Middleware;
  /** Routes of the console's pages, which need no token. */
  readonly router: RouterInstance;
  readonly handlers: AdminHandlers<'streamEvents' | 'getLag' | 'getTraffic' | keyof typeof BACKUPS>;
}

/** Paths that accept any `Host` header, because supervisors and Prometheus request them. */
const ANY_HOST = new Set(Object.values(HEALTH).map(koaPath));
const ADMIN_PREFIX = 'admin';
const LOOPBACK = ['localhost', '127.0.0.1', '::1'];

export function adminApp(deps: AdminAppDeps): Koa {
  const { logger, metrics } = deps;
  const router = new Router({ sensitive: true });
  const handlers = {
    ...directoryHandlers(deps),
    ...reportHandlers(deps),
    ...ledgerHandlers(deps.verifier, deps.ledger, deps.logger),
    ...deadLetterHandlers(deps.deadLetters),
    ...nodeHandlers(deps.store),
    ...clusterHandlers(deps.store, deps.log),
    ...erasureHandlers(deps.erasures),
    ...exportHandlers(deps.store, deps.directory),
    ...exportJobs(deps),
    ...readHandlers(deps),
    ...healthHandlers(deps),
    ...deps.pages.handlers,
    runSql: sqlHandler(deps.reader),
    getUpload: uploadHandler(deps),
  };
  addRoutes(router, OPERATORS, handlers);

  const app = new Koa();
  app.on('error', (error) => logger.warn('answer_failed', { cause: messageOf(error) }));
  app.use(problems(logger, metrics));
  // Counts requests with missing or wrong credentials. Too many such requests block the client's address.
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

/** Returns a hint if a game sends its request to the operators' port. */
function gamesHint(path: string): string | undefined {
  // Gives no hint for `/health`, because the function `noRoute` gives a better hint (`/healthz`).
  if (path === routeOf(GAMES.getHealth).path || !isOnlyIn(GAMES, OPERATORS, path)) return undefined;
  return "this is the operators' listener; games use port 8080 unless QUESTLOG_PORT is set";
}

type AdminHandlers<Id extends keyof typeof OPERATORS> = Handlers<Pick<typeof OPERATORS, Id>>;

function directoryHandlers(
  deps: AdminAppDeps,
): AdminHandlers<Exclude<keyof typeof DIRECTORY, 'retractReport'>> {
  const entities = { ...administer(deps.directory, deps.clock), ...readerOperations(deps) };
  const { list, replace } = projectSwitches(deps.directory, deps.clock);
  // Runs the directory changes of this process one after the other, because concurrent changes can conflict.
  const changes = new KeyedMutex();
  const change = async (ctx: RouterContext, work: () => Promise<{ status: number; body: object }>) => {
    const { status, body } = await changes.run('', work);
    ctx.status = status;
    return body;
  };
  const tagged = (ctx: RouterContext, { switches, etag }: TaggedSwitches) => {
    ctx.set('ETag', etag);
    return switches;
  };
  return {
    listTenants: entities.tenants,
    listProjects: entities.projects,
    listTokens: entities.tokens,
    listReaders: entities.readers,
    createTenant: (ctx, { body }) => change(ctx, () => entities.createTenant(body)),
    changeTenant: (ctx, { body, params }) => change(ctx, () => entities.patchTenant(body, params.id)),
    createProject: (ctx, { body }) => change(ctx, () => entities.createProject(body)),
    changeProject: (ctx, { body, params }) => change(ctx, () => entities.patchProject(body, params.id)),
    createToken: (ctx, { body }) => change(ctx, () => entities.createToken(body)),
    rotateToken: (ctx, { body, params }) => change(ctx, () => entities.rotateToken(body, params.id)),
    createReader: (ctx, { body }) => change(ctx, () => entities.createReader(body)),
    rotateReader: (ctx, { params }) => change(ctx, () => entities.rotateReader(params.id)),
    dropReader: (_, { params }) => entities.dropReader(params.id),
    revokeToken: (_, { params }) => entities.revokeToken(params.id),
    listSwitches: (ctx, { params }) => tagged(ctx, list(params.id)),
    replaceSwitches: async (ctx, { body, params }) =>
      tagged(ctx, await changes.run('', () => replace(params.id, body, ctx.get('If-Match')))),
    sendTestEvent: (ctx, { params }) =>
      sendTestEvent(entities, deps.gamesUrl, {
        projectIdText: params.id,
        requestId: ctx.response.get('X-Request-Id'),
        nowMs: deps.clock.now(),
      }),
  };
}

function reportHandlers(deps: AdminAppDeps): AdminHandlers<'retractReport' | 'retryLinks'> {
  return {
    retractReport: (_, { params }) => retractReport(deps, params.id, params.reportId),
    retryLinks: (_, { body }) => retryLinks(deps, body),
  };
}

function erasureHandlers(erasures: Erasures): AdminHandlers<'listErasures' | 'createErasure' | 'getErasure'> {
  return {
    listErasures: () => erasures.list(),
    createErasure: (_, { body }) => erasures.request(body),
    getErasure: (_, { params }) => erasures.find(params.id),
  };
}

function readHandlers(deps: AdminAppDeps): AdminHandlers<'listAudit' | 'getRetention' | 'getOpenApi'> {
  const { store, log, clock, directory } = deps;
  // Creates the OpenAPI document at the first request, so that the process starts faster.
  let document: string | undefined;
  return {
    listAudit: (ctx) => readAudit(store, firstQuery(ctx)),
    getRetention: (ctx) =>
      readRetention({ store, log, clock, projects: directory.current.projects }, firstQuery(ctx)('project')),
    getOpenApi: () => {
      document ??= JSON.stringify(openApiDocument(OPERATORS_API));
      return document;
    },
  };
}

function sqlHandler(reader: AddressedStore | undefined): Handlers<typeof OPERATORS>['runSql'] {
  let running = 0;
  return async (ctx, { body: input }) => {
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
  };
}

/** Prevents DNS rebinding, an attack in which a web page sends requests to this listener under the page's own host name. */
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
