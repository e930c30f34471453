/** The tables that an accepted event reaches (`deploy/clickhouse`). */

import { NEVER_WRITTEN } from '@questlog/schemas/tables/erasedEvents';
import type { EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { millisOf } from '@questlog/schemas/uuid';
import { PLACE_COLUMNS, ROW_BYTES, type RowOf, type RowTable, rowTable } from '../rowSink.ts';
import type { Source } from '../writer.ts';
import {
  type Counted,
  type ErasedOfRecord,
  type EventsKept,
  LEFT_OUT,
  type LeftOutKey,
  type MinuteKey,
  type QuotaKey,
} from './core/planEvents.ts';

/** A record's events, written in one piece: a call for each column took an eighth longer. */
export const EVENTS: RowTable<RowOf<EventsKept>> = {
  table: 'events',
  columns: `id tenant_id project_id session_id build_id event_type occurred_at received_at payload over_quota
    log_id log_partition log_offset log_index id_at sequence sample_rate`.split(/\s+/),
  write: (out, { place, message }) => {
    for (const [index, event] of message.events.entries()) {
      if (message.erased?.has(event.id) === true) continue;
      out.uuid(event.id);
      out.uuid(message.tenantId);
      out.uuid(message.projectId);
      out.nullableUuid(event.sessionId);
      out.nullableUuid(event.buildId);
      out.string(event.eventType);
      out.int64(event.occurredAt);
      out.uint64(message.receivedAt);
      out.stringBytes(event.payload);
      out.uint8(event.overQuota ? 1 : 0);
      out.uuid(place.logId);
      out.uint32(place.partition);
      out.uint64(place.offset);
      out.uint32(index);
      out.uint64(millisOf(event.id));
      out.nullable(event.sequence, (sequence) => out.uint64(sequence));
      out.float64(event.sampleRate ?? 1);
    }
  },
  bytesOf: ({ message: { events } }) =>
    events.reduce((sum, { payload }) => sum + payload.length + ROW_BYTES, 0),
};

export const APPENDS = rowTable<RowOf<EventsAccepted>>('appends', {
  append_id: (out, { message }) => out.uuid(message.appendId),
  tenant_id: (out, { message }) => out.uuid(message.tenantId),
  project_id: (out, { message }) => out.uuid(message.projectId),
  idempotency_key: (out, { message }) => out.nullableUuid(message.idempotency?.key ?? null),
  body_sha256: (out, { message }) => out.nullable(message.idempotency, ({ digest }) => out.fixed(digest)),
  received_at: (out, { message }) => out.int64(BigInt(message.receivedAt)),
  events: (out, { message }) => out.uint32(message.events.length),
  ...PLACE_COLUMNS,
});

export function quotaTable({ logId, partition }: Source): RowTable<Counted<QuotaKey>> {
  return rowTable('quota_usage_by_partition', {
    tenant_id: (out, { key }) => out.uuid(key.tenantId),
    month: (out, { key }) => out.uint16(key.monthDay),
    log_id: (out) => out.uuid(logId),
    log_partition: (out) => out.uint32(partition),
    used: (out, { count }) => out.uint64(count),
    last_offset: (out, { lastOffset }) => out.uint64(lastOffset),
  });
}

/** Ingest counts the rows that it hides in parts from 0 on. */
export function erasedTable({ logId, partition }: Source): RowTable<ErasedOfRecord> {
  return rowTable('erased_events', {
    erasure_id: (out, row) => out.uuid(row.erasureId),
    part: (out) => out.uint32(NEVER_WRITTEN),
    tenant_id: (out, row) => out.uuid(row.tenantId),
    received_at: (out, row) => out.int64(BigInt(row.receivedAt)),
    log_id: (out) => out.uuid(logId),
    log_partition: (out) => out.uint32(partition),
    log_offset: (out, row) => out.uint64(row.offset),
    events: (out, row) => out.uint32(row.events),
  });
}

export function leftOutTable({ logId, partition }: Source): RowTable<Counted<LeftOutKey>> {
  return rowTable('left_out_by_partition', {
    tenant_id: (out, { key }) => out.uuid(key.tenantId),
    minute: (out, { key }) => out.uint32(key.minuteS),
    what: (out, { key }) => out.uint8(LEFT_OUT.indexOf(key.what)),
    log_id: (out) => out.uuid(logId),
    log_partition: (out) => out.uint32(partition),
    count: (out, { count }) => out.uint64(count),
    last_offset: (out, { lastOffset }) => out.uint64(lastOffset),
  });
}

export function minuteTable({ logId, partition }: Source): RowTable<Counted<MinuteKey>> {
  return rowTable('event_counts_by_partition', {
    tenant_id: (out, { key }) => out.uuid(key.tenantId),
    project_id: (out, { key }) => out.uuid(key.projectId),
    minute: (out, { key }) => out.uint32(key.minuteS),
    event_type: (out, { key }) => out.string(key.eventType),
    log_id: (out) => out.uuid(logId),
    log_partition: (out) => out.uint32(partition),
    count: (out, { count }) => out.uint64(count),
    weight: (out, { weight, count }) => out.float64(weight ?? count),
    last_offset: (out, { lastOffset }) => out.uint64(lastOffset),
  });
}
