/** HTTP routes for supervisors and Prometheus. Every process serves these routes. */
import { Router } from '@koa/router';
import { HEALTH } from '@questlog/schemas/http/operations/health';
import Koa from 'koa';
import { messageOf } from '../process/errors.ts';
import type { Health } from '../process/health.ts';
import { type Listener, listen } from '../process/listener/listen.ts';
import type { ListenAddress } from '../process/listener/listenAddress.ts';
import type { Logger } from '../process/logger.ts';
import {
  type Exposition,
  exemplarsOf,
  OPEN_METRICS_TYPE,
  type TracedHistogram,
  toOpenMetrics,
} from '../process/metrics.ts';
import { addRoutes, type Handlers } from './routes.ts';

/** Matches an `Accept` header that names OpenMetrics 1.0. Prometheus lists this format first in its header. */
const ACCEPTS_OPEN_METRICS = /application\/openmetrics-text\s*;\s*version=1\.0\.0/;

export interface HealthDeps {
  readonly health: Health;
  readonly logger: Logger;
  readonly metrics: {
    readonly exposition: Exposition;
    /** Histograms with exemplars. Undefined if several workers share the exposition. */
    readonly withExemplars?: readonly TracedHistogram[] | undefined;
  };
}

export function healthHandlers({ health, metrics }: HealthDeps): Handlers<typeof HEALTH> {
  return {
    getHealth: () => ({ status: 'ok' }),
    getReadiness: async (ctx) => {
      const { problems, warnings } = await health.state();
      const isReady = Object.keys(problems).length === 0;
      const withWarnings = Object.keys(warnings).length === 0 ? {} : { warnings };
      ctx.status = isReady ? 200 : 503;
      return isReady
        ? { status: 'ready', ...withWarnings }
        : { status: 'not ready', problems, ...withWarnings };
    },
    getMetrics: async (ctx) => {
      const text = await metrics.exposition.metrics();
      const isOpenMetrics = ACCEPTS_OPEN_METRICS.test(ctx.get('Accept'));
      const { withExemplars = [] } = metrics;
      ctx.body = isOpenMetrics ? toOpenMetrics(text, await exemplarsOf(withExemplars)) : text;
      ctx.type = isOpenMetrics ? OPEN_METRICS_TYPE : metrics.exposition.contentType;
    },
  };
}

/** Opens a listener that serves only the health routes. @throws StartRefused if the address cannot be used. */
export function listenForHealth(deps: HealthDeps, address: ListenAddress): Promise<Listener> {
  const router = new Router({ sensitive: true });
  addRoutes(router, HEALTH, healthHandlers(deps));
  const app = new Koa();
  app.on('error', (error) => deps.logger.warn('answer_failed', { cause: messageOf(error) }));
  app.use(router.routes());
  return listen(app.callback(), address);
}
