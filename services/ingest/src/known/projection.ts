/** Waits until ClickHouse has what the log had: how a GET right after a 201 finds what was stored. */
import { setTimeout as delay } from 'node:timers/promises';
import { lastRecordOf, tableOf } from '@questlog/runtime/consumer/commitMetadata';
import type { RecordIdentity } from '@questlog/runtime/consumer/findTruncation';
import { positionsOf } from '@questlog/runtime/consumer/progress';
import type { Committed, Log } from '@questlog/runtime/log/log';
import { type Clock, steadyClock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { withinLimit } from '@questlog/runtime/process/waiting';
import { PROJECTED, type Projected } from '@questlog/schemas/tables/projected';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';

export interface Projection {
  /**
   * Resolves once the group has committed the topic's end as it is now, on the partitions that matter, and its commits mean
   * the table that is there: one that was restored may lack what they stand for (docs/decisions/0040).
   * @throws Unavailable after `limitMs`, also where a broker has not told that end by then; or once `signal` aborts; at once
   *   where ClickHouse does not say which table is there.
   */
  caughtUp(partitions: readonly number[] | 'all', limitMs?: number, signal?: AbortSignal): Promise<void>;
  /** Per partition, what ClickHouse has: everything below. */
  projected(): Promise<number[]>;
  /** Per partition, the record that the group's commit names: the last below it, or of an announced block. Undefined: none. */
  lastRecords(): Promise<(RecordIdentity | undefined)[]>;
}

export const READ_WAIT_MS = 5_000;

/** How far the projector has written the rows of one topic. */
export function watchRows({ log, tableUuid }: RowsDeps, of: Projected): Projection {
  const { table, ...watched } = PROJECTED[of];
  return watchProjection({ log, clock: steadyClock, ...watched, tableNow: () => tableUuid(table) });
}

interface RowsDeps {
  readonly log: Log;
  /** Of all that one process watches. */
  tableUuid(table: string): Promise<string>;
}

/** Each poll is a request to a broker, while a projection commits a few times a second: more often finds nothing new. */
const POLL_MS = 25;

export function watchProjection(deps: {
  log: Pick<Log, 'endOffsets' | 'endOffset' | 'offsetRanges' | 'committed'>;
  clock: Clock;
  group: string;
  topic: string;
  /** The UUID of the table that has the group's rows; absent for a group that writes none. */
  tableNow?: () => Promise<string>;
}): Projection {
  const { log, clock, group, topic, tableNow } = deps;
  // One poll serves all who wait: it asks for what everybody asks for, and what is projected stays so.
  const shares = {
    committed: shared(() => log.committed(group, topic)),
    offsetRanges: shared(() => log.offsetRanges(topic)),
  };
  const areOfThisTable = async (commits: readonly (Committed | undefined)[]): Promise<boolean> => {
    const meant = commits.flatMap((commit) => tableOf(commit) ?? []);
    if (tableNow === undefined || meant.length === 0) return true;
    const now = await tableNow();
    return meant.every((one) => one === now);
  };
  /** By partition, without those that are empty. */
  const endsOf = async (partitions: readonly number[] | 'all'): Promise<Map<number, number>> => {
    const ends =
      partitions === 'all'
        ? [...(await log.endOffsets(topic)).entries()]
        : // Another that has no leader now does not matter.
          await Promise.all(partitions.map(async (one) => [one, await log.endOffset(topic, one)] as const));
    return new Map(ends.filter(([, end]) => end > 0));
  };
  /** A position beyond the end is of a log that was cut since: nobody has written what came there afterwards. */
  const isOfThisLog = async (positions: ReadonlyMap<number, number>, ends: ReadonlyMap<number, number>) => {
    const beyond = [...positions.keys()].filter((one) => (positions.get(one) ?? 0) > (ends.get(one) ?? 0));
    if (beyond.length === 0) return true;
    const now = await endsOf(beyond);
    return beyond.every((one) => (positions.get(one) ?? 0) <= (now.get(one) ?? 0));
  };
  const caughtUp = async (
    partitions: readonly number[] | 'all',
    deadlineMs: number,
    signal: AbortSignal | undefined,
  ): Promise<void> => {
    const awaited = await endsOf(partitions);
    while (awaited.size > 0) {
      const commits = await shares.committed();
      const known = { ...shares, committed: async () => commits };
      const now = await positionsOf(known, group, topic, (partition) => awaited.has(partition));
      const positions = new Map([...awaited.keys()].map((partition) => [partition, now[partition] ?? 0]));
      const arePast = [...awaited].every(([partition, end]) => (positions.get(partition) ?? 0) >= end);
      const own = commits.filter((_, partition) => awaited.has(partition));
      if (arePast && (await isOfThisLog(positions, awaited)) && (await areOfThisTable(own))) return;
      if (clock.now() >= deadlineMs || signal?.aborted) lags();
      await delay(POLL_MS);
    }
  };
  return {
    projected: () => positionsOf(shares, group, topic),
    lastRecords: async () => (await log.committed(group, topic)).map(lastRecordOf),
    caughtUp: (partitions, limitMs = READ_WAIT_MS, signal) =>
      withinLimit(caughtUp(partitions, clock.now() + limitMs, signal), limitMs, lags),
  };
}

function lags(): never {
  throw new Unavailable('the projection has not caught up with the log yet', { retryAfterS: 1 });
}

/** Whoever asks while it runs gets its outcome. */
function shared<T>(work: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined;
  return () => {
    running ??= work().finally(() => {
      running = undefined;
    });
    return running;
  };
}

/** Resolves in any case, after `LINKS_WAIT_MS` at the latest: links that are not there yet come later. */
export type LinksSettled = (partitions: readonly number[] | 'all') => Promise<void>;

const LINKS_WAIT_MS = 1_000;

/**
 * Waits a little until the links of what the log has are in ClickHouse: the linker has read the events and the reports,
 * what it told its other partitions too, and the projector has written what the linker made of them.
 */
export function watchLinks(log: Log, links: Projection): LinksSettled {
  const clock = steadyClock;
  const linked = (topic: string) => watchProjection({ log, clock, group: GROUPS.link, topic });
  const events = linked(TOPICS.events);
  const reports = linked(TOPICS.reportLinks);
  return async (partitions) => {
    const deadlineMs = clock.now() + LINKS_WAIT_MS;
    const left = (): number => Math.max(deadlineMs - clock.now(), 0);
    try {
      await Promise.all([events.caughtUp(partitions, left()), reports.caughtUp(partitions, left())]);
      // Once more: the linker of the tenant's home forwards reports to where their session's events are.
      await reports.caughtUp(partitions, left());
      await links.caughtUp(partitions, left());
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
    }
  };
}
