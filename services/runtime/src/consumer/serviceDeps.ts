/** Dependencies of every service that reads the log and uses ClickHouse. */

import type { VisibleData } from '@questlog/schemas/visibility';
import type { Store } from '../clickhouse/store.ts';
import type { Log } from '../log/log.ts';
import type { Clock } from '../process/clock.ts';
import type { Health } from '../process/health.ts';
import type { Logger } from '../process/logger.ts';
import type { SchemaRegistry } from '../registry/registry.ts';
import type { Tracing } from '../tracing/tracing.ts';

export interface ServiceDeps {
  readonly log: Log;
  readonly store: Store;
  readonly registry: SchemaRegistry;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly health: Health;
  readonly visible: VisibleData;
  /** Undefined if tracing is off. */
  readonly tracing?: Tracing | undefined;
}
