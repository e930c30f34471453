/** Whole events from ClickHouse, with their payloads to the byte. */
import type { Store } from '@questlog/runtime/store/store';
import type { StoredEvent } from '@questlog/schemas/topics/linkedEvents';
import { millisOf } from '@questlog/schemas/uuid';

/** An event without its payload: where it lies, and what it takes. */
export interface EventPlace {
  readonly id: string;
  readonly tenantId: string;
  readonly projectId: string;
  readonly payloadBytes: number;
  /** Sorts as the log does. */
  readonly order: string;
}

interface Row {
  readonly id: string;
  readonly project_id: string;
  readonly session_id: string | null;
  readonly build_id: string | null;
  readonly event_type: string;
  readonly occurred_at_micros: string;
  readonly received_at_millis: string;
  readonly payload: string;
  readonly over_quota: boolean;
}

/** Of links, payloads and all, in one answer; one link is always taken. */
const MAX_LINK_BYTES = 16 * 1024 * 1024;
const LINK_BYTES = 400;
const MAX_IDS = 2_500;

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
    const rows = await store.query<Row>(
      `SELECT id, project_id, session_id, build_id, event_type, toUnixTimestamp64Micro(occurred_at) AS occurred_at_micros,
         toUnixTimestamp64Milli(received_at) AS received_at_millis, payload, over_quota
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
    for (const row of rows) events.set(`${row.project_id}/${row.id}`, eventOf(row));
  }
  return { events, taken };
}

function eventOf(row: Row): StoredEvent {
  return {
    id: row.id,
    sessionId: row.session_id,
    buildId: row.build_id,
    eventType: row.event_type,
    occurredAt: BigInt(row.occurred_at_micros),
    receivedAt: Number(row.received_at_millis),
    payload: Buffer.from(row.payload, 'utf8'),
    overQuota: row.over_quota,
  };
}
