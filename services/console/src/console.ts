/** Combines the parts of the console: pages, sign-in, live tail, consumer lag, and traffic. */
import { Router, type RouterInstance } from '@koa/router';
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import type { Handlers } from '@questlog/runtime/http/routes';
import type { Log } from '@questlog/runtime/log/log';
import type { Clock } from '@questlog/runtime/process/clock';
import type { Logger } from '@questlog/runtime/process/logger';
import type { Exposition } from '@questlog/runtime/process/metrics';
import { createCodec, type SchemaRegistry } from '@questlog/runtime/registry/registry';
import type { OPERATORS } from '@questlog/schemas/http/operations/operators';
import { eventsInBytes } from '@questlog/schemas/topics/eventsRecord';
import type { Middleware } from 'koa';
import { lagReader } from './lag.ts';
import { LiveTail } from './liveTail.ts';
import { pageFiles } from './pageFiles.ts';
import { watchProjection } from './projectionHistory.ts';
import { signIn } from './signIn.ts';
import { tailHandler } from './tailHandler.ts';
import { trafficOf } from './traffic.ts';

export interface ConsoleDependencies {
  readonly log: Log;
  readonly registry: SchemaRegistry;
  readonly store: Store;
  readonly directory: DirectoryHandle;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly exposition: Exposition;
  readonly adminToken: string;
  readonly dataDir: string | undefined;
}

export interface Console {
  /** The middleware that signs operators in. It must run before the middleware that checks the admin token. */
  readonly signIn: Middleware;
  /** Routes of the pages. The pages need no token. */
  readonly router: RouterInstance;
  readonly handlers: Handlers<Pick<typeof OPERATORS, 'streamEvents' | 'getLag' | 'getTraffic'>>;
  /** Ends all live tails, rejects new live tails, and ends the measurement of the projection. */
  close(): Promise<void>;
}

export async function openConsole(deps: ConsoleDependencies): Promise<Console> {
  const { log, registry, logger, clock, exposition } = deps;
  const codec = await createCodec(registry, eventsInBytes);
  const tail = new LiveTail({ log, codec, logger, nowMs: () => performance.now() });
  const projection = watchProjection(deps);
  const readLag = lagReader(deps);
  const router = new Router({ sensitive: true });
  pageFiles(router);
  const handlers: Console['handlers'] = {
    streamEvents: tailHandler(tail, deps),
    getLag: async () => ({ ...(await readLag()), projection: projection.current() }),
    getTraffic: async () => ({
      at: new Date(clock.now()).toISOString(),
      ...trafficOf(await exposition.getMetricsAsJSON()),
    }),
  };
  const close = async (): Promise<void> => void (await Promise.all([tail.close(), projection.stop()]));
  return { signIn: signIn(deps.adminToken), router, handlers, close };
}
