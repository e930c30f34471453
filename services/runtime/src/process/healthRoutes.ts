/** HTTP routes for supervisors and Prometheus. Every process serves these routes. */
import { Router, type RouterInstance } from '@koa/router';
import Koa from 'koa';
import { messageOf } from './errors.ts';
import type { Health } from './health.ts';
import { type Listener, listen } from './listener/listen.ts';
import type { ListenAddress } from './listener/listenAddress.ts';
import type { Logger } from './logger.ts';
import type { Exposition } from './metrics.ts';

export interface HealthDeps {
  readonly health: Health;
  readonly logger: Logger;
  readonly metrics: { readonly exposition: Exposition };
}

/** Adds the routes `/healthz`, `/readyz`, and `/metrics`. No token is required. */
export function healthRoutes(router: RouterInstance, { health, metrics }: HealthDeps): void {
  router.get('/healthz', (ctx) => {
    ctx.body = { status: 'ok' };
  });
  router.get('/readyz', async (ctx) => {
    const { problems, warnings } = await health.state();
    const isReady = Object.keys(problems).length === 0;
    const withWarnings = Object.keys(warnings).length === 0 ? {} : { warnings };
    ctx.status = isReady ? 200 : 503;
    ctx.body = isReady
      ? { status: 'ready', ...withWarnings }
      : { status: 'not ready', problems, ...withWarnings };
  });
  router.get('/metrics', async (ctx) => {
    ctx.body = await metrics.exposition.metrics();
    ctx.type = metrics.exposition.contentType;
  });
}

/** Opens a listener that serves only the health routes. @throws StartRefused if the address cannot be used. */
export function listenForHealth(deps: HealthDeps, address: ListenAddress): Promise<Listener> {
  const router = new Router({ sensitive: true });
  healthRoutes(router, deps);
  const app = new Koa();
  app.on('error', (error) => deps.logger.warn('answer_failed', { cause: messageOf(error) }));
  app.use(router.routes());
  return listen(app.callback(), address);
}
