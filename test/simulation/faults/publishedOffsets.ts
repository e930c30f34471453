/** Compares the published offsets with the rows of the tables at the same time. */

import type { ErasedData } from '@questlog/schemas/erased';
import { unframe } from '@questlog/schemas/topics/contract';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import type { StoredTables } from '../clickhouse/tables.ts';
import type { SimulatedLog } from '../world/simulatedLog.ts';

type Rows = Pick<StoredTables, 'rowsOf' | 'uuid'>;

export const PUBLISHED = 'projected_offset_versions';

/**
 * Returns a sentence for each event record below a published offset that has no row. Skips erased events and truncated partitions, because
 * until the repair their offsets are the offsets of the lost records.
 */
export function falseOffsets(log: SimulatedLog, tables: Rows, erased: ErasedData): string[] {
  const ids = new Set(tables.rowsOf('events', false).map(({ id }) => id));
  return publishedOf(tables).flatMap(({ topic, partition, next_offset: nextOffset }) => {
    const { records, reusedBelow } = log.partition(topic, partition);
    if (topic !== TOPICS.events || reusedBelow > 0) return [];
    return records
      .filter(
        ({ offset, value }) => offset < nextOffset && !eventsOf(value, erased).every((id) => ids.has(id)),
      )
      .map(
        ({ offset }) =>
          `${topic}/${partition} is published up to ${nextOffset} without the rows of ${offset}`,
      );
  });
}

const PROJECTED = [
  [TOPICS.events, GROUPS.projectEvents],
  [TOPICS.sessions, GROUPS.projectSessions],
  [TOPICS.reportLinks, GROUPS.projectReports],
  [TOPICS.linkedEvents, GROUPS.projectLinks],
] as const;

/** Returns a sentence for each partition whose published offset is not its end offset. */
export function unpublished(log: SimulatedLog, tables: Rows): string[] {
  const published = publishedOf(tables);
  return PROJECTED.flatMap(([topic, group]) =>
    log.partitionsOf(topic).flatMap(({ number, endOffset }) => {
      // If an empty partition has lost its commit, the projector publishes no offset until it reads a record.
      if (endOffset === 0 && log.groups.get(group)?.committed(topic, number) === undefined) return [];
      const row = published.find((one) => one.topic === topic && one.partition === number);
      if ((row?.next_offset ?? 0) === endOffset) return [];
      return [`${topic}/${number} is published up to ${row?.next_offset} of ${endOffset}`];
    }),
  );
}

interface Published {
  readonly topic: string;
  readonly partition: number;
  readonly next_offset: number;
  readonly table_uuid: string;
  readonly truncated_log_id: string | null;
}

/** Returns the published offsets as a reader sees them, without the rows of lost records and of tables before a restore. */
function publishedOf(tables: Rows): readonly Published[] {
  const rows = tables.rowsOf(PUBLISHED, true) as readonly unknown[] as readonly Published[];
  return rows.filter((row) => row.truncated_log_id === null && row.table_uuid === tables.uuid);
}

function eventsOf(value: Buffer | null, erased: ErasedData): readonly string[] {
  const framed = value === null ? undefined : unframe(value);
  if (framed === undefined) return [];
  const { events, ...owner } = eventsAccepted.type.fromBuffer(framed.body);
  const visible = events.filter(({ sessionId }) => erased.erasureOf({ ...owner, sessionId }) === undefined);
  return visible.map(({ id }) => id);
}
