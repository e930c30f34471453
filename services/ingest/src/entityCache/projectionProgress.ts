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

export interface ProjectionProgress {
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

export const READ_TIMEOUT_MS = 5_000;

/** How far the projector has written the rows of one topic. */
export function watchTableProgress(
  { log, tableUuid }: TableProgressDeps,
  source: Projected,
): ProjectionProgress {
  const { table, ...watched } = PROJECTED[source];
  return watchProgress({ log, clock: steadyClock, ...watched, currentTableUuid: () => tableUuid(table) });
}

interface TableProgressDeps {
  readonly log: Log;
  /** Of all that one process watches. */
  tableUuid(table: string): Promise<string>;
}

/** Each poll is a request to a broker, while a projection commits a few times a second: more often finds nothing new. */
const POLL_MS = 25;

export function watchProgress(deps: {
  log: Pick<Log, 'endOffsets' | 'endOffset' | 'offsetRanges' | 'committed'>;
  clock: Clock;
  group: string;
  topic: string;
  /** The UUID of the table that has the group's rows; absent for a group that writes none. */
  currentTableUuid?: () => Promise<string>;
}): ProjectionProgress {
  const { log, clock, group, topic, currentTableUuid } = deps;
  // One poll serves all who wait: it asks for what everybody asks for, and what is projected stays so.
  const shared = {
    committed: coalesced(() => log.committed(group, topic)),
    offsetRanges: coalesced(() => log.offsetRanges(topic)),
  };
  const matchCurrentTable = async (commits: readonly (Committed | undefined)[]): Promise<boolean> => {
    const tableUuids = commits.flatMap((commit) => tableOf(commit) ?? []);
    if (currentTableUuid === undefined || tableUuids.length === 0) return true;
    const current = await currentTableUuid();
    return tableUuids.every((partition) => partition === current);
  };
  /** By partition, without those that are empty. */
  const endsOf = async (partitions: readonly number[] | 'all'): Promise<Map<number, number>> => {
    const ends =
      partitions === 'all'
        ? [...(await log.endOffsets(topic)).entries()]
        : // Another that has no leader now does not matter.
          await Promise.all(
            partitions.map(async (partition) => [partition, await log.endOffset(topic, partition)] as const),
          );
    return new Map(ends.filter(([, end]) => end > 0));
  };
  /** A position beyond the end is of a log that was cut since: nobody has written what came there afterwards. */
  const matchCurrentLog = async (
    positions: ReadonlyMap<number, number>,
    ends: ReadonlyMap<number, number>,
  ) => {
    const beyond = [...positions.keys()].filter(
      (partition) => (positions.get(partition) ?? 0) > (ends.get(partition) ?? 0),
    );
    if (beyond.length === 0) return true;
    const current = await endsOf(beyond);
    return beyond.every((partition) => (positions.get(partition) ?? 0) <= (current.get(partition) ?? 0));
  };
  const caughtUp = async (
    partitions: readonly number[] | 'all',
    deadlineMs: number,
    signal: AbortSignal | undefined,
  ): Promise<void> => {
    const targets = await endsOf(partitions);
    while (targets.size > 0) {
      const commits = await shared.committed();
      const known = { ...shared, committed: async () => commits };
      const current = await positionsOf(known, group, topic, (partition) => targets.has(partition));
      const positions = new Map([...targets.keys()].map((partition) => [partition, current[partition] ?? 0]));
      const hasPassed = [...targets].every(([partition, end]) => (positions.get(partition) ?? 0) >= end);
      const own = commits.filter((_, partition) => targets.has(partition));
      if (hasPassed && (await matchCurrentLog(positions, targets)) && (await matchCurrentTable(own))) return;
      if (clock.now() >= deadlineMs || signal?.aborted) throwLagging();
      await delay(POLL_MS);
    }
  };
  return {
    projected: () => positionsOf(shared, group, topic),
    lastRecords: async () => (await log.committed(group, topic)).map(lastRecordOf),
    caughtUp: (partitions, limitMs = READ_TIMEOUT_MS, signal) =>
      withinLimit(caughtUp(partitions, clock.now() + limitMs, signal), limitMs, throwLagging),
  };
}

function throwLagging(): never {
  throw new Unavailable('the projection has not caught up with the log yet', { retryAfterS: 1 });
}

/** Whoever asks while it runs gets its outcome. */
function coalesced<T>(work: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined;
  return () => {
    running ??= work().finally(() => {
      running = undefined;
    });
    return running;
  };
}

/** Resolves in any case, after `LINKS_WAIT_MS` at the latest: links that are not there yet come later. */
export type WaitForLinks = (partitions: readonly number[] | 'all') => Promise<void>;

const LINKS_TIMEOUT_MS = 1_000;

/**
 * Waits a little until the links of what the log has are in ClickHouse: the linker has read the events and the reports,
 * what it told its other partitions too, and the projector has written what the linker made of them.
 */
export function watchLinks(log: Log, links: ProjectionProgress): WaitForLinks {
  const clock = steadyClock;
  const linked = (topic: string) => watchProgress({ log, clock, group: GROUPS.link, topic });
  const events = linked(TOPICS.events);
  const reports = linked(TOPICS.reportLinks);
  return async (partitions) => {
    const deadlineMs = clock.now() + LINKS_TIMEOUT_MS;
    const remainingMs = (): number => Math.max(deadlineMs - clock.now(), 0);
    try {
      await Promise.all([
        events.caughtUp(partitions, remainingMs()),
        reports.caughtUp(partitions, remainingMs()),
      ]);
      // Once more: the linker of the tenant's home forwards reports to where their session's events are.
      await reports.caughtUp(partitions, remainingMs());
      await links.caughtUp(partitions, remainingMs());
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
    }
  };
}
