/** A row of `events` (`deploy/clickhouse/001-events.sql`) as services read it. */
import type { AcceptedEvent } from '../topics/eventsAccepted.ts';

/** The columns of `EventRow`. */
export const EVENT_COLUMNS = `id, session_id, build_id, event_type, toUnixTimestamp64Micro(occurred_at) AS occurred_at_micros,
  payload, over_quota`;

export interface EventRow {
  readonly id: string;
  readonly session_id: string | null;
  readonly build_id: string | null;
  readonly event_type: string;
  readonly occurred_at_micros: string;
  readonly payload: string;
  readonly over_quota: boolean;
}

export function eventOfRow(row: EventRow): AcceptedEvent {
  return {
    id: row.id,
    sessionId: row.session_id,
    buildId: row.build_id,
    eventType: row.event_type,
    occurredAt: BigInt(row.occurred_at_micros),
    payload: Buffer.from(row.payload, 'utf8'),
    overQuota: row.over_quota,
  };
}
