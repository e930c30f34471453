/** Events in ClickHouse: where they lie, and whole, with their payloads to the byte. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import { EVENT_COLUMNS, type EventRow, eventOfRow } from '@questlog/schemas/tables/events';
import type { StoredEvent } from '@questlog/schemas/topics/linkedEvents';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { millisOf } from '@questlog/schemas/uuid';
import { LINK_BYTES } from '../core/decision.ts';

/** An event without its payload: where it lies, and what it takes. */
export interface EventPlace {
  readonly id: string;
  readonly tenantId: string;
  readonly projectId: string;
  readonly payloadBytes: number;
  /** Sorts as the log does. */
  readonly order: string;
}

export interface PlaceRow {
  readonly id: string;
  readonly project_id: string;
  readonly tenant_id: string;
  readonly payload_bytes: string;
  readonly log_id: string;
  readonly log_partition: number;
  readonly log_offset: string;
  readonly log_index: number;
}

export const PLACE_COLUMNS = `events.id AS id, events.project_id AS project_id, events.tenant_id AS tenant_id,
  length(events.payload) AS payload_bytes, events.log_id AS log_id, events.log_partition AS log_partition,
  events.log_offset AS log_offset, events.log_index AS log_index`;

/** Bytes of one answer's links, with their payloads; one link is always taken. */
const MAX_LINK_BYTES = 16 * 1024 * 1024;

/** Ids in one list. */
export const MAX_IDS = 2_500;

interface WholeRow extends EventRow {
  readonly project_id: string;
  readonly received_at_millis: string;
}

/** Finds events by project and id; one that is nowhere is missing. */
export async function eventPlaces(
  store: Store,
  reports: readonly ReportLink[],
  ids: readonly string[],
): Promise<Map<string, PlaceRow>> {
  const rows = new Map<string, PlaceRow>();
  for (let i = 0; i < ids.length; i += MAX_IDS) {
    const some = ids.slice(i, i + MAX_IDS);
    const found = await store.query<PlaceRow>(
      `SELECT ${PLACE_COLUMNS} FROM events
       WHERE tenant_id IN {tenants:Array(UUID)} AND project_id IN {projects:Array(UUID)}
         AND id_at IN (SELECT fromUnixTimestamp64Milli(arrayJoin({millis:Array(Int64)}), 'UTC'))
         AND id IN {ids:Array(UUID)} LIMIT 1 BY project_id, id`,
      {
        tenants: [...new Set(reports.map(({ tenantId }) => tenantId))],
        projects: [...new Set(reports.map(({ projectId }) => projectId))],
        millis: [...new Set(some.map(millisOf))],
        ids: some,
      },
    );
    for (const row of found) rows.set(`${row.project_id}/${row.id}`, row);
  }
  return rows;
}

/** @param links the event of each link, in order; an event may come several times. */
export async function wholeEvents(
  store: Store,
  links: readonly EventPlace[],
): Promise<{ events: Map<string, StoredEvent>; taken: number }> {
  let bytes = 0;
  let taken = 0;
  for (const { payloadBytes } of links) {
    bytes += payloadBytes + LINK_BYTES;
    if (taken > 0 && bytes > MAX_LINK_BYTES) break;
    taken++;
  }
  const events = new Map<string, StoredEvent>();
  const places = [...new Map(links.slice(0, taken).map((place) => [place.id, place])).values()];
  for (let i = 0; i < places.length; i += MAX_IDS) {
    const some = places.slice(i, i + MAX_IDS);
    const rows = await store.query<WholeRow>(
      `SELECT ${EVENT_COLUMNS}, project_id, toUnixTimestamp64Milli(received_at) AS received_at_millis
       FROM events
       WHERE tenant_id IN {tenants:Array(UUID)} AND project_id IN {projects:Array(UUID)}
         AND id_at IN (SELECT fromUnixTimestamp64Milli(arrayJoin({millis:Array(Int64)}), 'UTC'))
         AND id IN {ids:Array(UUID)} LIMIT 1 BY project_id, id`,
      {
        tenants: [...new Set(some.map(({ tenantId }) => tenantId))],
        projects: [...new Set(some.map(({ projectId }) => projectId))],
        millis: [...new Set(some.map(({ id }) => millisOf(id)))],
        ids: some.map(({ id }) => id),
      },
    );
    for (const row of rows)
      events.set(`${row.project_id}/${row.id}`, {
        ...eventOfRow(row),
        receivedAt: Number(row.received_at_millis),
      });
  }
  return { events, taken };
}

export function placeOf(row: PlaceRow): EventPlace {
  const digits = (value: string | number): string => String(value).padStart(16, '0');
  return {
    id: row.id,
    tenantId: row.tenant_id,
    projectId: row.project_id,
    payloadBytes: Number(row.payload_bytes),
    order: `${digits(row.log_partition)}${digits(row.log_offset)}${digits(row.log_index)}`,
  };
}
