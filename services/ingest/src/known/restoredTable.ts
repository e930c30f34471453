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
  lacks(below: readonly number[]): Promise<Unavailable | undefined>;
}

/** An unknown id costs no query of its own, also during a restore, which takes longer. */
const KNOWN_FOR_MS = 1_000;
/** What is in the table need not wait for longer to be found. */
const LOOK_LIMIT_MS = 1_000;
const RETRY_AFTER_S = 10;

export class Lacking extends Unavailable {}

interface Look {
  readonly atMs: number;
  /** Per partition, what the group's commit says, or where the topic begins, and where that ends: a cut takes the rest. */
  readonly commits: readonly { readonly offset: number; readonly tables?: string; readonly end: number }[];
  readonly table: string;
}

export function watchRestored(
  { log, store, clock }: { log: Pick<Log, 'committed' | 'offsetRanges'>; store: Store; clock: Clock },
  { group, topic, table }: { group: string; topic: string; table: string },
): RestoredTable {
  let known: Look | undefined;
  /** Per partition, the highest offset that was asked for before a look. A commit may have passed later ones since. */
  const looked: number[] = [];
  const look = coalesceCalls(async (): Promise<Look> => {
    const atMs = clock.now();
    const commits = await log.committed(group, topic);
    const ranges = await log.offsetRanges(topic);
    known = {
      ...{ atMs, table: await tableUuid(store, table) },
      commits: commits.map((commit, partition) => {
        const { startOffset = 0, endOffset = Number.POSITIVE_INFINITY } = ranges[partition] ?? {};
        return { ...(commit === undefined ? { offset: startOffset } : metadataOf(commit)), end: endOffset };
      }),
    };
    return known;
  });
  const lackOf = ({ commits, table: now }: Look, below: readonly number[]): Unavailable | undefined => {
    const lacking = below.findIndex((up, partition) => {
      const { offset = 0, tables = now, end = up } = commits[partition] ?? {};
      return up > 0 && (tables !== now || offset < Math.min(up, end));
    });
    if (lacking === -1) return undefined;
    const of = `${topic}/${lacking}, which it had up to offset ${below[lacking]}`;
    const message = `ClickHouse's table ${table} was restored and does not have all of ${of}; what is not in it may come back`;
    return new Lacking(message, { retryAfterS: RETRY_AFTER_S });
  };
  const lacks = async (below: readonly number[]): Promise<Unavailable | undefined> => {
    if (below.every((end) => end === 0)) return undefined;
    if (known !== undefined && clock.now() - known.atMs <= KNOWN_FOR_MS) {
      const lacking = lackOf(known, below);
      if (lacking === undefined || below.every((end, one) => end <= (looked[one] ?? 0))) return lacking;
    }
    const now = await look();
    below.forEach((end, one) => {
      looked[one] = Math.max(end, looked[one] ?? 0);
    });
    return lackOf(now, below);
  };
  const late = () => new Unavailable('whether ClickHouse has what it had is not known yet; try again');
  return {
    lacks: (below) =>
      withinLimit(lacks(below), LOOK_LIMIT_MS, late).catch((cause: unknown) => {
        if (cause instanceof Unavailable) return cause;
        throw cause;
      }),
  };
}

/** Whoever asks hears what was known at the last time, so that it does not wait for ClickHouse. */
export function warnOfRestored(
  health: Pick<Health, 'warn'>,
  known: readonly { lacks(): Promise<Unavailable | undefined> }[],
): void {
  let warning: string | undefined;
  health.warn('restored', () => {
    Promise.all(known.map((one) => one.lacks()))
      .then((lacking) => {
        warning = lacking.find((one) => one instanceof Lacking)?.message;
      })
      // Whoever needs it for an answer hears of it.
      .catch(() => {});
    return warning;
  });
}
