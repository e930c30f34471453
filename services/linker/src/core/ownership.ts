/** Determines which partition links an event to a report. */
import { partitionOf } from '@questlog/schemas/partition';
import { namedEventsOf } from '@questlog/schemas/reportWindow';
import type { LinkSource } from '@questlog/schemas/topics/linkedEvents';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { laneOf } from '@questlog/schemas/uuid';

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
