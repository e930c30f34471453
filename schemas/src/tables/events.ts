/** Columns and row types of the table `events` (`deploy/clickhouse/001-events.sql`). */
import type { AcceptedEvent } from '../topics/eventsAccepted.ts';

export const EVENT_COLUMNS = `id, session_id AS sessionId, build_id AS buildId, event_type AS eventType,
  toUnixTimestamp64Micro(occurred_at) AS occurredAt, payload, over_quota AS overQuota, sequence`;

/** Row with the columns of `EVENT_COLUMNS`. ClickHouse returns 64-bit integers and bytes as strings. */
export interface EventRow extends Omit<AcceptedEvent, 'occurredAt' | 'payload' | 'sequence'> {
  readonly occurredAt: string;
  readonly payload: string;
  readonly sequence: string | null;
}

export function eventOfRow({
  id,
  sessionId,
  buildId,
  eventType,
  overQuota,
  ...row
}: EventRow): AcceptedEvent {
  const [occurredAt, payload] = [BigInt(row.occurredAt), Buffer.from(row.payload, 'utf8')];
  const sequence = row.sequence === null ? null : Number(row.sequence);
  return { id, sessionId, buildId, eventType, occurredAt, payload, overQuota, sequence };
}
