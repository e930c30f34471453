/** The listener that operators see: tenants, projects, tokens, questions to ClickHouse, health, metrics. */
import { timingSafeEqual } from 'node:crypto';
import { Router, type RouterContext } from '@koa/router';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { sha256Hex } from '@questlog/runtime/directory/directory';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import type { Clock } from '@questlog/runtime/process/clock';
import { messageOf } from '@questlog/runtime/process/errors';
import { type HealthDeps, healthRoutes } from '@questlog/runtime/process/healthRoutes';
import {
  ProjectInput,
  ProjectPatch,
  SqlInput,
  TenantInput,
  TenantPatch,
  TokenInput,
} from '@questlog/schemas/http/admin';
import { LinkRetryInput } from '@questlog/schemas/http/report';
import Koa from 'koa';
import type { TSchema } from 'typebox';
import { administer } from '../admin/administer.ts';
import { askSql } from '../admin/askSql.ts';
import { retryLinks } from '../admin/retryLinks.ts';
import { OneAtATime } from '../known/oneAtATime.ts';
import type { Reports } from '../known/reports.ts';
import { Rejected } from '../rejected.ts';
import { bearerToken } from './authenticate.ts';
import { problems } from './problems.ts';
import { checkedBody, jsonBody, noRoute } from './route.ts';

export interface AdminAppDeps extends HealthDeps {
  readonly directory: DirectoryHandle;
  readonly store: Store;
  readonly reports: Reports;
  readonly clock: Clock;
  readonly adminToken: string;
}

export function adminApp(deps: AdminAppDeps): Koa {
  const { logger, metrics } = deps;
  const router = new Router({ sensitive: true });
  const operations = administer(deps.directory, deps.clock);
  const authorized = operatorsOnly(deps.adminToken);

  // Changes at other ingests are noticed and decided anew; one's own take turns, which saves that.
  const changes = new OneAtATime();
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => changes.run('', work);
  const list = (path: string, rows: () => object[]): void => {
    router.get(path, authorized, (ctx) => {
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
    router[method](path, authorized, jsonBody(), async (ctx) => {
      const { status, body } = await inTurn(() => run(checked(ctx.request.body), ctx.params['id'] ?? ''));
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
  router.delete('/admin/tokens/:id', authorized, async (ctx) => {
    await operations.revokeToken(ctx.params['id'] ?? '');
    ctx.status = 204;
  });
  const retryBody = checkedBody(LinkRetryInput);
  router.post('/admin/links/retry', authorized, jsonBody(), async (ctx) => {
    ctx.body = await retryLinks(deps, retryBody(ctx.request.body));
  });
  const sqlBody = checkedBody(SqlInput);
  router.post('/admin/sql', authorized, jsonBody(), async (ctx) => {
    ctx.body = await askSql(deps.store, sqlBody(ctx.request.body).query);
    ctx.type = 'application/json';
  });

  healthRoutes(router, deps);

  const app = new Koa();
  app.on('error', (error) => logger.warn('answer_failed', { cause: messageOf(error) }));
  app.use(problems(logger, metrics));
  app.use(router.routes());
  app.use(noRoute(router));
  return app;
}

function operatorsOnly(
  adminToken: string,
): (ctx: RouterContext, next: () => Promise<unknown>) => Promise<unknown> {
  const expected = Buffer.from(sha256Hex(adminToken));
  return (ctx, next) => {
    const given = Buffer.from(sha256Hex(bearerToken(ctx.get('Authorization'))));
    if (timingSafeEqual(given, expected)) return next();
    throw new Rejected('unauthorized', 'this is not the admin token', {
      headers: { 'WWW-Authenticate': 'Bearer realm="questlog-admin", error="invalid_token"' },
    });
  };
}
