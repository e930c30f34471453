/**
 * Decides whether a projector or the linker has processed all records of a topic below an offset. A GET request waits for this
 * progress, so that its response includes the data of earlier POST requests. A lookup of the linker waits for the same
 * progress, so that the lookup misses no rows.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { PROJECTED, type Projected } from '@questlog/schemas/tables/projected';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { type Clock, steadyClock } from '../../process/clock.ts';
import { Unavailable } from '../../process/errors.ts';
import { withinLimit } from '../../process/waiting.ts';
import type { Committed, Log } from '../log.ts';
import { lastRecordOf, leaderEpochOf, type RecordIdentity, tableOf } from './commitMetadata.ts';

export interface RequiredOffset {
  readonly offset: number;
  /** Leader epoch of the latest record that the caller has processed in the partition. Null or undefined if it is unknown. */
  readonly leaderEpoch?: number | null;
}

export interface ProjectionCheck {
  /** True to ignore a commit above the log's end offset. The group made this commit before the log was truncated. */
  readonly checksEndOffset?: boolean;
  /**
   * True if a required offset can be higher than the end of the log, because a truncation can have removed records. The group
   * then only has to reach the end of the log.
   */
  readonly mayBeTruncated?: boolean;
}

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
   * For each partition, returns the record that is named in the group's commit. The rows of this record are possibly not stored
   * yet.
   */
  lastRecords(): Promise<(RecordIdentity | undefined)[]>;
}

export interface Projection extends ProjectionProgress {
  ends(partitions: readonly number[] | 'all'): Promise<ReadonlyMap<number, RequiredOffset>>;
  /**
   * Returns the consumer group or table that lacks records below the required offsets, as text for operators. Undefined if
   * ClickHouse has all these records. @throws Unavailable
   */
  unprojected(
    required: ReadonlyMap<number, RequiredOffset>,
    check?: ProjectionCheck,
  ): Promise<string | undefined>;
}

export const READ_TIMEOUT_MS = 5_000;

export type Projections = Readonly<Record<Projected, ProjectionProgress>>;

/** @param tableUuid returns the UUID of a ClickHouse table. */
export function watchProjections(
  log: Log,
  tableUuid: (table: string) => Promise<string>,
): Readonly<Record<Projected, Projection>> {
  const watch = (source: Projected): Projection => {
    const { table: name, ...watched } = PROJECTED[source];
    const table = { name, uuid: () => tableUuid(name) };
    return watchProjection({ log, clock: steadyClock, ...watched, table });
  };
  return {
    events: watch('events'),
    sessions: watch('sessions'),
    reports: watch('reports'),
    links: watch('links'),
  };
}

const POLL_MS = 25;

/** ClickHouse table that a consumer group fills. */
interface ProjectedTable {
  readonly name: string;
  uuid(): Promise<string>;
}

export type ProjectionLog = Pick<Log, 'endOffsets' | 'endOffset' | 'offsetRanges' | 'committed'>;

export function watchProjection(deps: {
  log: ProjectionLog;
  clock: Clock;
  group: string;
  topic: string;
  /**
   * ClickHouse table that the group fills. If the table is restored, the caller waits until the group has filled the table
   * again. Undefined if the group fills no table, or if the caller does not wait.
   */
  table?: ProjectedTable;
}): Projection {
  const { log, clock, group, topic, table } = deps;
  const shared = {
    committed: coalesced(() => log.committed(group, topic)),
    offsetRanges: coalesced(() => log.offsetRanges(topic)),
  };
  const unprojected: Projection['unprojected'] = async (
    required,
    { checksEndOffset = false, mayBeTruncated = false } = {},
  ) => {
    const needs = new Map([...required].filter(([, { offset }]) => offset > 0));
    if (needs.size === 0) return undefined;
    const commits = await shared.committed();
    const known = { ...shared, committed: async () => commits };
    const positions = await positionsOf(known, group, topic, (partition) => needs.has(partition));
    const isProjected = async (
      partition: number,
      { offset, leaderEpoch }: RequiredOffset,
    ): Promise<boolean> => {
      const position = positions[partition] ?? 0;
      if (isOfOlderLog(commits[partition], leaderEpoch)) return false;
      if (position < offset)
        return mayBeTruncated && position >= (await endOffsetOrInfinity(log, topic, partition));
      return position === offset || !checksEndOffset || position <= (await log.endOffset(topic, partition));
    };
    const left = await Promise.all(
      [...needs].map(async ([partition, need]) =>
        (await isProjected(partition, need)) ? [] : `${topic}/${partition}`,
      ),
    );
    if (left.flat().length > 0) return `${group} on ${left.flat().join(', ')}`;
    const tableUuids = [...needs.keys()].flatMap((partition) => tableOf(commits[partition]) ?? []);
    if (table === undefined || tableUuids.length === 0) return undefined;
    const current = await table.uuid();
    return tableUuids.every((uuid) => uuid === current)
      ? undefined
      : `${group} to fill the restored table ${table.name}`;
  };
  const ends: Projection['ends'] = async (partitions) => {
    const asRequired = (offset: number, partition: number) => [partition, { offset }] as const;
    if (partitions === 'all') return new Map((await log.endOffsets(topic)).map(asRequired));
    // Requests the end offsets of only these partitions, because a request fails if one of its partitions has no leader.
    return new Map(
      await Promise.all(partitions.map(async (one) => asRequired(await log.endOffset(topic, one), one))),
    );
  };
  const caughtUp = async (
    partitions: readonly number[] | 'all',
    deadlineMs: number,
    signal: AbortSignal | undefined,
  ): Promise<void> => {
    const required = await ends(partitions);
    while ((await unprojected(required, { checksEndOffset: true })) !== undefined) {
      if (clock.now() >= deadlineMs || signal?.aborted) throwLagging();
      await delay(POLL_MS);
    }
  };
  return {
    ends,
    unprojected,
    projected: () => positionsOf(shared, group, topic),
    lastRecords: async () => (await log.committed(group, topic)).map(lastRecordOf),
    caughtUp: (partitions, limitMs = READ_TIMEOUT_MS, signal) =>
      withinLimit(caughtUp(partitions, clock.now() + limitMs, signal), limitMs, throwLagging),
  };
}

/**
 * True if the leader epoch of the commit is older than the required leader epoch. In this case, the log was truncated and has
 * grown again, but the projector has not detected the truncation yet. False if an epoch is unknown.
 */
function isOfOlderLog(commit: Committed | undefined, leaderEpoch: number | null = null): boolean {
  const known = commit && leaderEpochOf(commit);
  return known !== undefined && leaderEpoch !== null && known < leaderEpoch;
}

/** Returns the end offset, or infinity if the brokers do not answer, so that the caller does not treat any record as lost. */
async function endOffsetOrInfinity(log: ProjectionLog, topic: string, partition: number): Promise<number> {
  try {
    return await log.endOffset(topic, partition);
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    return Number.POSITIVE_INFINITY;
  }
}

function throwLagging(): never {
  throw new Unavailable('the projection has not caught up with the log yet', { retryAfterS: 1 });
}

/** Combines concurrent calls of `work`. A caller can receive the result of a run that started before its call. */
function coalesced<T>(work: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined;
  return () => {
    running ??= work().finally(() => {
      running = undefined;
    });
    return running;
  };
}

/**
 * Waits until ClickHouse has the links of all events that were appended before the call. After `LINKS_TIMEOUT_MS`, returns and
 * throws no error.
 */
export type WaitForLinks = (partitions: readonly number[] | 'all') => Promise<void>;

const LINKS_TIMEOUT_MS = 1_000;

export function watchLinks(log: Log, links: ProjectionProgress): WaitForLinks {
  const clock = steadyClock;
  const linked = (topic: string) => watchProjection({ log, clock, group: GROUPS.link, topic });
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

/**
 * Returns an offset for each partition: the group's commit or, without a commit, the start offset of the partition. The offset
 * is 0 if the partition has neither a commit nor a leader.
 * @param isRelevant returns true if the caller uses the partition's offset. If it returns false, the result can be 0 instead of
 * the start offset.
 */
export async function positionsOf(
  log: Pick<Log, 'committed' | 'offsetRanges'>,
  group: string,
  topic: string,
  isRelevant: (partition: number) => boolean = () => true,
): Promise<number[]> {
  const commits = await log.committed(group, topic);
  const isNeeded = commits.some((commit, partition) => commit === undefined && isRelevant(partition));
  const ranges = isNeeded ? await log.offsetRanges(topic) : [];
  return commits.map((commit, partition) => commit?.offset ?? ranges[partition]?.startOffset ?? 0);
}
