/** Types of the objects that the modules of ingest share. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import type { Log } from '@questlog/runtime/log/log';
import type { Clock } from '@questlog/runtime/process/clock';
import type { Health } from '@questlog/runtime/process/health';
import type { Lifecycle } from '@questlog/runtime/process/lifecycle';
import type { Logger } from '@questlog/runtime/process/logger';
import type { SchemaRegistry } from '@questlog/runtime/registry/registry';
import type { Tracing } from '@questlog/runtime/tracing/tracing';
import type { VisibleData } from '@questlog/schemas/visibility';
import type { IngestMetrics } from './metrics.ts';

/** Objects that all modules of ingest share. A module that needs only some of the objects declares them with `Pick`. */
export interface IngestContext {
  readonly log: Log;
  readonly store: Store;
  readonly registry: SchemaRegistry;
  readonly directory: DirectoryHandle;
  readonly visible: VisibleData;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: IngestMetrics;
  readonly health: Health;
  readonly lifecycle: Lifecycle;
  readonly tracing?: Tracing | undefined;
}
