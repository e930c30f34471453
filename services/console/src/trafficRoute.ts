/** Serves `GET /admin/traffic`: the totals of the process since its start, from which the health page computes rates. */
import type { RouterInstance } from '@koa/router';
import type { Clock } from '@questlog/runtime/process/clock';
import type { Exposition } from '@questlog/runtime/process/metrics';
import type { TrafficOutput } from '@questlog/schemas/http/health';
import { trafficOf } from './traffic.ts';

export function trafficRoute(
  router: RouterInstance,
  { exposition, clock }: { exposition: Exposition; clock: Clock },
): void {
  router.get('/admin/traffic', async (ctx) => {
    const at = new Date(clock.now()).toISOString();
    const traffic: TrafficOutput = { at, ...trafficOf(await exposition.getMetricsAsJSON()) };
    ctx.body = traffic;
  });
}
