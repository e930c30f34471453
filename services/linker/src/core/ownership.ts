/**
 * Determines the one partition that owns a pair of a report and an event. The lane in the id of a named event determines the
 * partition. For other events, the lane of the session determines the partition. Pure.
 */
import { partitionOf } from '@questlog/schemas/partition';
import { namedEventsOf } from '@questlog/schemas/reportWindow';
import type { LinkSource } from '@questlog/schemas/topics/linkedEvents';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { laneOf } from '@questlog/schemas/uuid';

/** Returns the named events that this partition owns. */
export function ownedEventsOf(
  record: ReportLink,
  partition: number,
  partitions: number,
): Map<string, Exclude<LinkSource, 'session'>> {
  const home = partitionOf(record.tenantId, 0, partitions);
  const named = namedEventsOf(record);
  for (const id of named.keys()) {
    if ((home + laneOf(id)) % partitions !== partition) named.delete(id);
  }
  return named;
}

/** True if this partition owns the session of the report. The report must have a session. */
export function ownsSession(record: ReportLink, partition: number, partitions: number): boolean {
  return partitionOf(record.tenantId, record.sessionLane ?? 0, partitions) === partition;
}

export function ownersOf(record: ReportLink, partitions: number): Set<number> {
  const home = partitionOf(record.tenantId, 0, partitions);
  const owners = new Set<number>();
  for (const id of namedEventsOf(record).keys()) owners.add((home + laneOf(id)) % partitions);
  if (record.sessionId !== null) owners.add((home + (record.sessionLane ?? 0)) % partitions);
  return owners;
}
