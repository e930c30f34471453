/** A pair of a report and an event that is to be linked or unlinked, without the event's payload. */
import type { LinkSource } from '@questlog/schemas/topics/linkedEvents';
import type { Ask } from './core/jobs.ts';
import type { EventPlace } from './eventRows.ts';

export interface Pair {
  readonly ask: Pick<Ask, 'key' | 'record'>;
  readonly event: EventPlace;
  readonly source: LinkSource;
}

export interface EventRow {
  readonly id: string;
  readonly project_id: string;
  readonly tenant_id: string;
  readonly payload_bytes: string;
  readonly log_id: string;
  readonly log_partition: number;
  readonly log_offset: string;
  readonly log_index: number;
}

export const EVENT_COLUMNS = `events.id AS id, events.project_id AS project_id, events.tenant_id AS tenant_id,
  length(events.payload) AS payload_bytes, events.log_id AS log_id, events.log_partition AS log_partition,
  events.log_offset AS log_offset, events.log_index AS log_index`;

export function placeOf(row: EventRow): EventPlace {
  const digits = (value: string | number): string => String(value).padStart(16, '0');
  return {
    id: row.id,
    tenantId: row.tenant_id,
    projectId: row.project_id,
    payloadBytes: Number(row.payload_bytes),
    order: `${digits(row.log_partition)}${digits(row.log_offset)}${digits(row.log_index)}`,
  };
}
