/** Reads events from ClickHouse by event id, either with all fields or only with their positions in the log. */
import { chunksOf, type Store } from '@questlog/runtime/clickhouse/store';
import { storedEvents } from '@questlog/runtime/clickhouse/storedEvents';
import { EVENT_COLUMNS, type EventRow, eventOfRow } from '@questlog/schemas/tables/events';
import type { StoredEvent } from '@questlog/schemas/topics/linkedEvents';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { LINK_OVERHEAD_BYTES } from '../core/decision.ts';

export interface EventLocation {
  readonly id: string;
  readonly tenantId: string;
  readonly projectId: string;
  readonly payloadBytes: string;
  readonly logId: string;
  readonly logPartition: number;
  readonly logOffset: string;
  readonly logIndex: number;
}

export const LOCATION_COLUMNS = `events.id AS id, events.tenant_id AS tenantId, events.project_id AS projectId,
  length(events.payload) AS payloadBytes, events.log_id AS logId, events.log_partition AS logPartition,
  events.log_offset AS logOffset, events.log_index AS logIndex`;

export function byLogPosition(a: EventLocation, b: EventLocation): number {
  return (
    a.logPartition - b.logPartition || Number(a.logOffset) - Number(b.logOffset) || a.logIndex - b.logIndex
  );
}

export async function eventLocations(
  store: Store,
  reports: readonly ReportLink[],
  ids: readonly string[],
): Promise<Map<string, EventLocation>> {
  const rows = await eventsById<EventLocation>(store, LOCATION_COLUMNS, reports, ids);
  return new Map(rows.map((row) => [`${row.projectId}/${row.id}`, row]));
}

/** Maximum bytes of the links that one lookup returns. If the first link is larger, the lookup returns only this link. */
const MAX_LINK_BYTES = 16 * 1024 * 1024;

interface FullRow extends EventRow {
  readonly projectId: string;
  readonly receivedAt: string;
}

/** Reads the events of the first links, up to the byte limit. `taken` is the number of links whose events were read. */
export async function fullEvents(
  store: Store,
  links: readonly EventLocation[],
): Promise<{ events: Map<string, StoredEvent>; taken: number }> {
  let bytes = 0;
  let taken = 0;
  for (const { payloadBytes } of links) {
    bytes += Number(payloadBytes) + LINK_OVERHEAD_BYTES;
    if (taken > 0 && bytes > MAX_LINK_BYTES) break;
    taken++;
  }
  const locations = links.slice(0, taken);
  const columns = `${EVENT_COLUMNS}, project_id AS projectId, toUnixTimestamp64Milli(received_at) AS receivedAt`;
  const ids = [...new Set(locations.map(({ id }) => id))];
  const rows = await eventsById<FullRow>(store, columns, locations, ids);
  const events = rows.map((row) => {
    const event = { ...eventOfRow(row), receivedAt: Number(row.receivedAt) };
    return [`${row.projectId}/${row.id}`, event] as const;
  });
  return { events: new Map(events), taken };
}

async function eventsById<Row>(
  store: Store,
  columns: string,
  owners: readonly { readonly tenantId: string; readonly projectId: string }[],
  ids: readonly string[],
): Promise<Row[]> {
  const found: Row[] = [];
  for (const part of chunksOf(ids)) {
    found.push(...(await storedEvents<Row>(store, columns, { ids: part, owners })));
  }
  return found;
}
