/** The endpoints of bug reports on the public listener. */
import type { RouterContext, RouterInstance } from '@koa/router';
import type { Principal } from '@questlog/runtime/directory/directory';
import type { Scope } from '@questlog/schemas/topics/directoryEntry';
import { createReport, type ReportDeps } from '../reports/createReport.ts';
import { type ReportReadDeps, readReport, readReportEvents } from '../reports/readReports.ts';
import { retractReport } from '../retractReport.ts';
import { type BodyBudget, withBody } from './readBody.ts';
import { json, pageQuery, param } from './route.ts';

export function reportRoutes(
  router: RouterInstance,
  deps: { reports: ReportDeps & ReportReadDeps; bodies: BodyBudget },
  as: (ctx: RouterContext, scope: Scope) => Principal,
): void {
  const { reports, bodies } = deps;
  router.post('/v1/reports', async (ctx) => {
    const principal = as(ctx, 'reports:write');
    const answer = await withBody(ctx.req, bodies, (body) => createReport(reports, principal, body));
    ctx.status = answer.isReplay ? 200 : 201;
    ctx.set('Location', `/v1/reports/${answer.id}`);
    if (answer.isReplay) ctx.set('Idempotency-Replayed', 'true');
    json(ctx, answer.body);
  });
  router.get('/v1/reports/:id', async (ctx) =>
    json(ctx, await readReport(reports, as(ctx, 'read'), param(ctx))),
  );
  router.get('/v1/reports/:id/events', async (ctx) =>
    json(ctx, await readReportEvents(reports, as(ctx, 'read'), param(ctx), pageQuery(ctx))),
  );
  router.delete('/v1/reports/:id', async (ctx) => {
    await retractReport(reports, as(ctx, 'reports:write'), param(ctx));
    ctx.status = 204;
  });
}
