/**
 * Watches how far a projector or the linker has read a topic. A GET request waits for this progress, so that its response
 * includes the data of earlier POST requests.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { PROJECTED, type Projected } from '@questlog/schemas/tables/projected';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { cachedTableUuids, type Store } from '../clickhouse/store.ts';
import type { Committed, Log } from '../log/log.ts';
import { type Clock, steadyClock } from '../process/clock.ts';
import { Unavailable } from '../process/errors.ts';
import { withinLimit } from '../process/waiting.ts';
import { lastRecordOf, tableOf } from './commitMetadata.ts';
import type { RecordIdentity } from './findTruncation.ts';
import { positionsOf } from './progress.ts';

export interface ProjectionProgress {
  /**
   * Waits until the consumer group (a projector or the linker) has committed the topic's current end offset. Ignores commits
   * for an older ClickHouse table, because a restored table can lack the committed rows (docs/decisions/0040).
   * @throws Unavailable after `limitMs`, or if `signal` aborts
   */
  caughtUp(partitions: readonly number[] | 'all', limitMs?: number, signal?: AbortSignal): Promise<void>;
  /** For each partition, returns the offset below which ClickHouse has all records. */
  projected(): Promise<number[]>;
  /**
   * For each partition, returns the record that the group's commit names. The rows of this record are possibly not stored yet.
   */
  lastRecords(): Promise<(RecordIdentity | undefined)[]>;
}

export const READ_TIMEOUT_MS = 5_000;

export type Projections = Readonly<Record<'events' | 'sessions' | 'reports' | 'links', ProjectionProgress>>;

export function watchProjections(log: Log, store: Store): Projections {
  const tableUuid = cachedTableUuids(store);
  const watch = (source: Projected): ProjectionProgress => {
    const { table, ...watched } = PROJECTED[source];
    return watchProgress({ log, clock: steadyClock, ...watched, currentTableUuid: () => tableUuid(table) });
  };
  return {
    events: watch('events'),
    sessions: watch('sessions'),
    reports: watch('reports'),
    links: watch('links'),
  };
}

const POLL_MS = 25;

export function watchProgress(deps: {
  log: Pick<Log, 'endOffsets' | 'endOffset' | 'offsetRanges' | 'committed'>;
  clock: Clock;
  group: string;
  topic: string;
  /** Returns the UUID of the ClickHouse table that the consumer group fills. Undefined for a consumer group without a table. */
  currentTableUuid?: () => Promise<string>;
}): ProjectionProgress {
  const { log, clock, group, topic, currentTableUuid } = deps;
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
  const endsOf = async (partitions: readonly number[] | 'all'): Promise<Map<number, number>> => {
    const ends =
      partitions === 'all'
        ? [...(await log.endOffsets(topic)).entries()]
        : // Another partition without a leader does not matter.
          await Promise.all(
            partitions.map(async (partition) => [partition, await log.endOffset(topic, partition)] as const),
          );
    return new Map(ends.filter(([, end]) => end > 0));
  };
  /** False if a committed position is above the log's end offset, which is the case after a truncation of the log. */
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

/** Returns a function whose concurrent calls share one execution of `work`. */
function coalesced<T>(work: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined;
  return () => {
    running ??= work().finally(() => {
      running = undefined;
    });
    return running;
  };
}

/** Waits until ClickHouse has the links of all earlier events. Gives up after `LINKS_TIMEOUT_MS` without an error. */
export type WaitForLinks = (partitions: readonly number[] | 'all') => Promise<void>;

const LINKS_TIMEOUT_MS = 1_000;

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
      // Waits for the linker a second time, because the linker can forward a report to another partition during the first wait.
      await reports.caughtUp(partitions, remainingMs());
      await links.caughtUp(partitions, remainingMs());
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
    }
  };
}
