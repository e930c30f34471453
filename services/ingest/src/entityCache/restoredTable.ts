/**
 * Detects ClickHouse tables that were restored from a backup and still lack rows. Each commit of the projector contains the
 * UUID of the table, and a restored table has a different UUID (docs/decisions/0040).
 */
import { type Store, tableUuid } from '@questlog/runtime/clickhouse/store';
import type { Log } from '@questlog/runtime/log/log';
import { metadataOf } from '@questlog/runtime/log/projection/commitMetadata';
import type { Clock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import type { Health } from '@questlog/runtime/process/health';
import { coalesceCalls, withinLimit } from '@questlog/runtime/process/waiting';

export interface RestoredTable {
  /** Returns an error if ClickHouse's table lacks records below the given offsets (one offset per partition). */
  errorIfIncomplete(below: readonly number[]): Promise<Unavailable | undefined>;
}

const CACHE_TTL_MS = 1_000;
const CHECK_TIMEOUT_MS = 1_000;
const RETRY_AFTER_S = 10;

export class TableIncomplete extends Unavailable {}

interface TableCheck {
  readonly atMs: number;
  /** For each partition, the committed offset, the table UUIDs in the commit, and the topic's end offset. */
  readonly commits: readonly { readonly offset: number; readonly tables?: string; readonly end: number }[];
  readonly table: string;
}

export function watchRestoredTable(
  { log, store, clock }: { log: Pick<Log, 'committed' | 'offsetRanges'>; store: Store; clock: Clock },
  { group, topic, table }: { group: string; topic: string; table: string },
): RestoredTable {
  let latest: TableCheck | undefined;
  const checkedBelow: number[] = [];
  const check = coalesceCalls(async (): Promise<TableCheck> => {
    const atMs = clock.now();
    const commits = await log.committed(group, topic);
    const ranges = await log.offsetRanges(topic);
    latest = {
      ...{ atMs, table: await tableUuid(store, table) },
      commits: commits.map((commit, partition) => {
        const { startOffset = 0, endOffset = Number.POSITIVE_INFINITY } = ranges[partition] ?? {};
        return { ...(commit === undefined ? { offset: startOffset } : metadataOf(commit)), end: endOffset };
      }),
    };
    return latest;
  });
  const incompletenessOf = (
    { commits, table: current }: TableCheck,
    below: readonly number[],
  ): Unavailable | undefined => {
    const incomplete = below.findIndex((up, partition) => {
      const { offset = 0, tables = current, end = up } = commits[partition] ?? {};
      return up > 0 && (tables !== current || offset < Math.min(up, end));
    });
    if (incomplete === -1) return undefined;
    const missing = `${topic}/${incomplete}, which it had up to offset ${below[incomplete]}`;
    const message = `ClickHouse's table ${table} was restored and does not have all rows of ${missing} yet; missing rows may come back`;
    return new TableIncomplete(message, { retryAfterS: RETRY_AFTER_S });
  };
  const errorIfIncomplete = async (below: readonly number[]): Promise<Unavailable | undefined> => {
    if (below.every((end) => end === 0)) return undefined;
    if (latest !== undefined && clock.now() - latest.atMs <= CACHE_TTL_MS) {
      const incomplete = incompletenessOf(latest, below);
      if (incomplete === undefined || below.every((end, partition) => end <= (checkedBelow[partition] ?? 0)))
        return incomplete;
    }
    const current = await check();
    below.forEach((end, partition) => {
      checkedBelow[partition] = Math.max(end, checkedBelow[partition] ?? 0);
    });
    return incompletenessOf(current, below);
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

/** Adds a warning about restored tables to the health status. The tables are checked in the background. */
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
      // Ignores a failed check of the tables. A request that needs a table repeats the check and fails with the same error.
      .catch(() => {});
    return warning;
  });
}
