/** A row of `events` (`deploy/clickhouse/001-events.sql`) as services read it. */
import type { AcceptedEvent } from '../topics/eventsAccepted.ts';

export const EVENT_COLUMNS = `id, session_id AS sessionId, build_id AS buildId, event_type AS eventType,
  toUnixTimestamp64Micro(occurred_at) AS occurredAt, payload, over_quota AS overQuota`;

/** An event as `EVENT_COLUMNS` give it: 64-bit integers and bytes are text. */
export interface EventRow extends Omit<AcceptedEvent, 'occurredAt' | 'payload'> {
  readonly occurredAt: string;
  readonly payload: string;
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
  return { id, sessionId, buildId, eventType, occurredAt, payload, overQuota };
}
