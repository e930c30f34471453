/** Determines which offsets the projector must reach in each topic before a lookup can read ClickHouse. */
import type { RequiredOffset } from '@questlog/runtime/log/projection/projection';
import { partitionOf } from '@questlog/schemas/partition';
import type { Projected } from '@questlog/schemas/tables/projected';
import type { LinkerPosition } from '@questlog/schemas/topics/linkerState';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import type { Job } from './jobs.ts';

export type RequiredOffsets = {
  readonly [topic in Projected]?: ReadonlyMap<number, RequiredOffset>;
};

/**
 * Offsets of one commit.
 * - `events`: the linker has read all records of the events topic below this offset.
 * - `links`: all links of these events are below this offset in the topic of linked events.
 */
export interface CommittedPosition
  extends Pick<LinkerPosition, 'events' | 'eventsEpoch' | 'reportLinksEpoch'> {
  readonly links: number;
}

export interface EndOffsets {
  readonly events: readonly number[];
  readonly reports: readonly number[];
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
