/** Combines the parts of the console: pages, sign-in, live tail, consumer lag, and traffic. */
import { Router, type RouterInstance } from '@koa/router';
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import type { Log } from '@questlog/runtime/log/log';
import type { Clock } from '@questlog/runtime/process/clock';
import type { Logger } from '@questlog/runtime/process/logger';
import type { Exposition } from '@questlog/runtime/process/metrics';
import { createCodec, type SchemaRegistry } from '@questlog/runtime/registry/registry';
import { eventsInBytes } from '@questlog/schemas/topics/eventsRecord';
import type { Middleware } from 'koa';
import { lagRoute } from './lagRoute.ts';
import { LiveTail } from './liveTail.ts';
import { pageFiles } from './pageFiles.ts';
import { signIn } from './signIn.ts';
import { tailRoute } from './tailRoute.ts';
import { trafficRoute } from './trafficRoute.ts';

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
  /** The routes of the pages need no token. The routes under `/admin/` need the admin token. */
  readonly router: RouterInstance;
  /** Ends all live tails, and rejects new live tails. */
  close(): Promise<void>;
}

export async function openConsole(deps: ConsoleDependencies): Promise<Console> {
  const { log, registry, logger } = deps;
  const codec = await createCodec(registry, eventsInBytes);
  const tail = new LiveTail({ log, codec, logger, nowMs: () => performance.now() });
  const router = new Router({ sensitive: true });
  pageFiles(router);
  tailRoute(router, tail, deps);
  lagRoute(router, deps);
  trafficRoute(router, deps);
  return { signIn: signIn(deps.adminToken), router, close: () => tail.close() };
}
