/** Dependencies of every service that reads the log and uses ClickHouse. */

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

/** Erased data, which must not be stored or returned again. */
export interface Erasures {
  readonly cached: ErasedData;
  /** Reads all erasures that the log contains at the time of the call. @throws Unavailable if the log cannot be read. */
  latest(): Promise<ErasedData>;
}

export const NO_ERASURES: Erasures = { cached: new ErasedData(), latest: async () => new ErasedData() };

export function erasuresOf(directory: {
  readonly current: { readonly erased: ErasedData };
  caughtUp(): Promise<void>;
}): Erasures {
  const cached = directory.current.erased;
  return { cached, latest: async () => directory.caughtUp().then(() => cached) };
}
