/**
 * Detects ClickHouse tables that were restored from a backup and still lack rows. Each commit of the projector contains the
 * UUID of the table. A restored table has another UUID (docs/decisions/0040).
 */
import { type ProjectionLog, watchProjection } from '../../log/projection/projection.ts';
import type { Clock } from '../../process/clock.ts';
import { Unavailable } from '../../process/errors.ts';
import type { Health } from '../../process/health.ts';
import { withinLimit } from '../../process/waiting.ts';
import type { Store } from '../store.ts';
import { coalescedTableUuids } from './tableUuids.ts';

export interface RestoredTable {
  /** Returns an error if the ClickHouse table lacks records below one of the offsets. `below` has one offset per partition. */
  errorIfIncomplete(below: readonly number[]): Promise<Unavailable | undefined>;
}

const CACHE_TTL_MS = 1_000;
const CHECK_TIMEOUT_MS = 1_000;
const RETRY_AFTER_S = 10;

export class TableIncomplete extends Unavailable {}

/** Result of the latest check whether the table has all rows of a partition. */
interface TableCheck {
  readonly atMs: number;
  /** Offset below which the check searched for missing rows. */
  readonly below: number;
  readonly isComplete: boolean;
}

export function watchRestoredTable(
  { log, store, clock }: { log: ProjectionLog; store: Pick<Store, 'query'>; clock: Clock },
  { group, topic, table: name }: { group: string; topic: string; table: string },
): RestoredTable {
  const uuidOf = coalescedTableUuids(store);
  const table = { name, uuid: () => uuidOf(name) };
  const projection = watchProjection({ log, clock, group, topic, table });
  const checks: TableCheck[] = [];
  const isComplete = async (below: number, partition: number): Promise<boolean> => {
    if (below === 0) return true;
    const latest = checks[partition];
    if (latest !== undefined && clock.now() - latest.atMs <= CACHE_TTL_MS) {
      if (below === latest.below) return latest.isComplete;
      if (below < latest.below && latest.isComplete) return true;
    }
    const atMs = clock.now();
    const required = new Map([[partition, { offset: below }]]);
    const unprojected = await projection.unprojected(required, { mayBeTruncated: true });
    checks[partition] = { atMs, below, isComplete: unprojected === undefined };
    return unprojected === undefined;
  };
  const errorIfIncomplete = async (below: readonly number[]): Promise<Unavailable | undefined> => {
    const incomplete = (await Promise.all(below.map(isComplete))).indexOf(false);
    if (incomplete === -1) return undefined;
    const missing = `${topic}/${incomplete}, which it had up to offset ${below[incomplete]}`;
    const message = `ClickHouse's table ${name} was restored and does not have all rows of ${missing} yet; missing rows may come back`;
    return new TableIncomplete(message, { retryAfterS: RETRY_AFTER_S });
  };
  const timedOut = () => new Unavailable('ClickHouse has not yet shown if its table is complete; try again');
  return {
    errorIfIncomplete: (below) =>
      withinLimit(errorIfIncomplete(below), CHECK_TIMEOUT_MS, timedOut).catch((cause: unknown) => {
        if (cause instanceof Unavailable) return cause;
        throw cause;
      }),
  };
}

/** Adds a warning to the health status if restored tables lack rows. Checks the tables in the background. */
export function warnIfRestored(
  health: Pick<Health, 'warn'>,
  latest: readonly { errorIfIncomplete(): Promise<Unavailable | undefined> }[],
): void {
  let warning: string | undefined;
  health.warn('restored', () => {
    Promise.all(latest.map((partition) => partition.errorIfIncomplete()))
      .then((incomplete) => {
        warning = incomplete.find((partition) => partition instanceof TableIncomplete)?.message;
      })
      // Ignores a failed check of the tables. A request that needs a table repeats the check, and reports the error.
      .catch(() => {});
    return warning;
  });
}
