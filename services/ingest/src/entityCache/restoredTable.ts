/**
 * After a restore a table of ClickHouse lacks what the projector had written to the one before, until it has read the log again.
 * Its commits name the table that they mean (docs/decisions/0040): where they name another, or are not where they were, what is
 * not in the table may still exist.
 */
import { type Store, tableUuid } from '@questlog/runtime/clickhouse/store';
import { metadataOf } from '@questlog/runtime/consumer/commitMetadata';
import type { Log } from '@questlog/runtime/log/log';
import type { Clock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import type { Health } from '@questlog/runtime/process/health';
import { coalesceCalls, withinLimit } from '@questlog/runtime/process/waiting';

export interface RestoredTable {
  /**
   * Undefined: the table has, of each of these partitions, what was projected below the offset. Otherwise what is not in it
   * may still exist; also where that is not known in time. As of at most `KNOWN_FOR_MS` ago.
   */
  errorIfIncomplete(below: readonly number[]): Promise<Unavailable | undefined>;
}

/** An unknown id costs no query of its own, also during a restore, which takes longer. */
const CACHE_TTL_MS = 1_000;
/** What is in the table need not wait for longer to be found. */
const CHECK_TIMEOUT_MS = 1_000;
const RETRY_AFTER_S = 10;

export class TableIncomplete extends Unavailable {}

interface TableCheck {
  readonly atMs: number;
  /** Per partition, what the group's commit says, or where the topic begins, and where that ends: a cut takes the rest. */
  readonly commits: readonly { readonly offset: number; readonly tables?: string; readonly end: number }[];
  readonly table: string;
}

export function watchRestoredTable(
  { log, store, clock }: { log: Pick<Log, 'committed' | 'offsetRanges'>; store: Store; clock: Clock },
  { group, topic, table }: { group: string; topic: string; table: string },
): RestoredTable {
  let latest: TableCheck | undefined;
  /** Per partition, the highest offset that was asked for before a look. A commit may have passed later ones since. */
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
    const message = `ClickHouse's table ${table} was restored and does not have all of ${missing}; what is not in it may come back`;
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
  const timedOut = () => new Unavailable('whether ClickHouse has what it had is not known yet; try again');
  return {
    errorIfIncomplete: (below) =>
      withinLimit(errorIfIncomplete(below), CHECK_TIMEOUT_MS, timedOut).catch((cause: unknown) => {
        if (cause instanceof Unavailable) return cause;
        throw cause;
      }),
  };
}

/** Whoever asks hears what was known at the last time, so that it does not wait for ClickHouse. */
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
      // Whoever needs it for an answer hears of it.
      .catch(() => {});
    return warning;
  });
}
