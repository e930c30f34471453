/** The dependencies of every service that reads the log and writes to ClickHouse or asks it. */

import { ErasedData } from '@questlog/schemas/erased';
import type { Store } from '../clickhouse/store.ts';
import type { Log } from '../log/log.ts';
import type { Clock } from '../process/clock.ts';
import type { Health } from '../process/health.ts';
import type { Logger } from '../process/logger.ts';
import type { SchemaRegistry } from '../registry/registry.ts';

export interface ServiceDeps {
  readonly log: Log;
  readonly store: Store;
  readonly registry: SchemaRegistry;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly health: Health;
  readonly erased: Erasures;
}

/** What must not come back. */
export interface Erasures {
  /** As far as this process knows. */
  readonly cached: ErasedData;
  /** By all erasures that the log has when it is asked. @throws Unavailable where this process cannot tell. */
  latest(): Promise<ErasedData>;
}

/** Where nothing can be erased. */
export const NO_ERASURES: Erasures = { cached: new ErasedData(), latest: async () => new ErasedData() };

/** As the directory knows it, which this room does not. */
export function erasuresOf(directory: {
  readonly current: { readonly erased: ErasedData };
  caughtUp(): Promise<void>;
}): Erasures {
  const cached = directory.current.erased;
  return { cached, latest: async () => directory.caughtUp().then(() => cached) };
}
