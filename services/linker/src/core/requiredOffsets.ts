/**
 * Says what must be projected before a look-up may ask: the partitions that it asks about and no more, so that one on
 * which the projector is behind keeps no other waiting. Pure.
 *
 * For events that is the partition's own, whatever the tenant's spread was when they came: an event lies on the lane in
 * its id, which is its session's, and a partition asks only for events of its own lanes (`ownership.ts`). For reports
 * it is the tenants' homes, where it is decided what a report is and from where its row comes.
 */
import { partitionOf } from '@questlog/schemas/partition';
import type { Projected } from '@questlog/schemas/tables/projected';
import type { LinkerPosition } from '@questlog/schemas/topics/linkerState';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import type { Job } from './jobs.ts';

/** Per topic and partition, up to where it must be projected; a topic that is not here does not matter. */
export type RequiredOffsets = {
  readonly [topic in Projected]?: ReadonlyMap<number, RequiredOffset>;
};

export interface RequiredOffset {
  readonly offset: number;
  /** Kafka's leader epoch of the last record below the offset, or of a later one; null: not known. */
  readonly leaderEpoch: number | null;
}

/** The partition's position: events below the first offset are linked as they came, by links below `links`. */
export interface CommittedPosition
  extends Pick<LinkerPosition, 'events' | 'eventsEpoch' | 'reportLinksEpoch'> {
  readonly links: number;
}

/** Ends of topics as they were when the look-up began, by partition; empty where they do not matter to it. */
export interface EndOffsets {
  /** All events before a last look-up. */
  readonly events: readonly number[];
  /** Of `homesOf`: what was filed and retracted before. */
  readonly reports: readonly number[];
  /** The sessions of reports whose lanes are to be looked up: they were registered before. */
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

/**
 * The homes of the tenants whose reports a job reads from ClickHouse, wherever it has heard of them: copied retractions, spilled
 * contents, sessions of late events.
 */
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

/** A writer need not know the lane of its report's session; the session was registered before. */
export function needsSessionLanes(job: Job): boolean {
  if (job.kind !== 'check') return false;
  return [...job.reports.values()].some(
    ({ record }) => record.sessionId !== null && record.sessionLane === null,
  );
}

/** The records that are asked about lie in the partition's own topic. */
function endOffsetOf(
  entries: ReadonlyMap<string, { readonly record: ReportLink; readonly offset: number }>,
): number {
  return [...entries.values()].reduce((end, { offset }) => Math.max(end, offset + 1), 0);
}
