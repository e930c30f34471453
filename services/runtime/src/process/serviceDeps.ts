/** What every service that reads the log and writes or asks ClickHouse is made of. */
import type { Log } from '../log/log.ts';
import type { SchemaRegistry } from '../registry/registry.ts';
import type { Store } from '../store/store.ts';
import type { Clock } from './clock.ts';
import type { Health } from './health.ts';
import type { Logger } from './logger.ts';
import type { Metrics } from './metrics.ts';

export interface ServiceDeps {
  readonly log: Log;
  readonly store: Store;
  readonly registry: SchemaRegistry;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly health: Health;
}
