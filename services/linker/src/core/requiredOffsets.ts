/**
 * Determines which offsets must be projected before a lookup may query ClickHouse. For events, this is their own
 * partition, because the id of an event contains its lane. For reports, these are the tenants' home partitions. Pure.
 */
import { partitionOf } from '@questlog/schemas/partition';
import type { Projected } from '@questlog/schemas/tables/projected';
import type { LinkerPosition } from '@questlog/schemas/topics/linkerState';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import type { Job } from './jobs.ts';

/** Required offsets for each topic and partition. A missing topic is not required. */
export type RequiredOffsets = {
  readonly [topic in Projected]?: ReadonlyMap<number, RequiredOffset>;
};

export interface RequiredOffset {
  readonly offset: number;
  /** Kafka's leader epoch of the last record below the offset, or of a later record; null: unknown. */
  readonly leaderEpoch: number | null;
}

/** Committed position of the partition: all events below `events` are linked, by links below `links`. */
export interface CommittedPosition
  extends Pick<LinkerPosition, 'events' | 'eventsEpoch' | 'reportLinksEpoch'> {
  readonly links: number;
}

/** End offsets at the start of the lookup, by partition. Empty if the lookup does not need them. */
export interface EndOffsets {
  readonly events: readonly number[];
  /** Ends of the home partitions (`homePartitionsOf`), for filed reports and retractions. */
  readonly reports: readonly number[];
  /** Ends of the sessions topic, for reports whose lane is looked up: their sessions were registered before. */
  readonly sessions: readonly number[];
}

export function requiredOffsetsOf(
  job: Job,
  { partition, partitions }: { readonly partition: number; readonly partitions: number },
  position: CommittedPosition,
  ends: EndOffsets,
): RequiredOffsets {
  const own = (offset = 0, leaderEpoch: number | null = null) =>
    new Map([[partition, { offset, leaderEpoch }]]);
  const { eventsEpoch, reportLinksEpoch } = position;
  const linked = { events: own(position.events, eventsEpoch), links: own(position.links) };
  const homes = homePartitionsOf(job, partitions);
  const filed = new Map(
    [...homes].map((home) => [home, { offset: ends.reports[home] ?? 0, leaderEpoch: null }]),
  );
  switch (job.kind) {
    case 'check':
      return {
        reports: own(endOffsetOf(job.reports), reportLinksEpoch),
        sessions: own(ends.sessions[partition]),
      };
    case 'unlink':
      return {
        ...linked,
        reports: new Map([...filed, ...own(endOffsetOf(job.retractions), reportLinksEpoch)]),
      };
    case 'ask':
    case 'close':
      return homes.size === 0 ? linked : { ...linked, reports: filed };
    case 'late':
      return { ...linked, reports: filed };
  }
}

/** Returns the home partitions of the reports that a lookup reads from ClickHouse. */
export function homePartitionsOf(job: Job, partitions: number): ReadonlySet<number> {
  const homes = (of: Iterable<{ readonly tenantId: string }>) =>
    new Set([...of].map(({ tenantId }) => partitionOf(tenantId, 0, partitions)));
  switch (job.kind) {
    case 'check':
      return homes([]);
    case 'unlink':
      return homes([...job.retractions.values()].map(({ record }) => record));
    case 'ask':
    case 'close': {
      const spilled = [...job.reports.values()].filter(({ phase }) => phase === 'spilled');
      return homes(spilled.map(({ record }) => record));
    }
    case 'late':
      return homes(job.sessions.values());
  }
}

/** True if a report lacks its session's lane. The session was registered before the report. */
export function needsSessionLanes(job: Job): boolean {
  if (job.kind !== 'check') return false;
  return [...job.reports.values()].some(
    ({ record }) => record.sessionId !== null && record.sessionLane === null,
  );
}

function endOffsetOf(
  entries: ReadonlyMap<string, { readonly record: ReportLink; readonly offset: number }>,
): number {
  return [...entries.values()].reduce((end, { offset }) => Math.max(end, offset + 1), 0);
}
