/** Row encoders of the tables for events, appends, and counts (`deploy/clickhouse`). */

import { RowBinaryWriter } from '@questlog/runtime/clickhouse/rowBinary';
import { type Columns, type RowTable, rowTable } from '@questlog/runtime/clickhouse/rowTable';
import { ABSENT, type EventsRecord, PROJECT_AT, TENANT_AT } from '@questlog/schemas/topics/eventsRecord';
import { POSITION_COLUMNS, type RecordRow } from '../rowSink.ts';
import type { Source } from '../writer.ts';
import {
  type Counted,
  EXCLUSIONS,
  type ExcludedKey,
  type HiddenEvents,
  type MinuteKey,
  type QuotaKey,
} from './core/planEvents.ts';

/** Encodes the rows of events directly from a record's bytes. Columns that are equal for all events are encoded one time. */
export const EVENTS: RowTable<RecordRow<EventsRecord> & HiddenEvents> = {
  table: 'events',
  columns: `tenant_id project_id received_at log_id log_partition log_offset log_index id id_at session_id
    build_id event_type occurred_at payload over_quota sequence sample_rate`.split(/\s+/),
  write: (out, { position, message: record, hidden }) => {
    const { bytes } = record;
    const sharedColumns = sharedColumnsOf(record, position);
    for (let event = 0; event < record.count; event++) {
      if (hidden?.has(event) === true) continue;
      out.bytes(sharedColumns);
      out.uint32(event);
      out.uuidAt(bytes, record.idAt(event));
      out.uint64(record.idMillis(event));
      writeNullableUuid(out, bytes, record.sessionAt(event));
      writeNullableUuid(out, bytes, record.buildAt(event));
      out.stringAt(bytes, record.typeAt(event), record.typeBytes(event));
      out.int64FromHalves(record.lowMicros(event), record.highMicros(event));
      out.stringAt(bytes, record.payloadAt(event), record.payloadBytes(event));
      out.uint8(record.isOverQuota(event) ? 1 : 0);
      out.nullable(record.sequence(event), (sequence) => out.uint64(sequence));
      out.doubleLE(record.sampleRate(event) ?? 1);
    }
  },
  bytesOf: ({ message: { bytes, count } }) => bytes.length + count * ROW_OVERHEAD_BYTES,
};

const ROW_OVERHEAD_BYTES = 96;

function sharedColumnsOf(
  { bytes, receivedAt }: EventsRecord,
  position: RecordRow<unknown>['position'],
): Buffer {
  const out = new RowBinaryWriter(SHARED_COLUMN_BYTES);
  out.uuidAt(bytes, TENANT_AT);
  out.uuidAt(bytes, PROJECT_AT);
  out.uint64(receivedAt);
  out.uuid(position.logId);
  out.uint32(position.partition);
  out.uint64(position.offset);
  return out.written();
}

const SHARED_COLUMN_BYTES = 68;

function writeNullableUuid(out: RowBinaryWriter, bytes: Buffer, at: number): void {
  out.uint8(at === ABSENT ? 1 : 0);
  if (at !== ABSENT) out.uuidAt(bytes, at);
}

export const APPENDS = rowTable<RecordRow<EventsRecord>>('appends', {
  append_id: (out, { message }) => out.uuid(message.appendId),
  tenant_id: (out, { message }) => out.uuid(message.tenantId),
  project_id: (out, { message }) => out.uuid(message.projectId),
  idempotency_key: (out, { message }) => out.nullableUuid(message.idempotency?.key ?? null),
  body_sha256: (out, { message }) => out.nullable(message.idempotency, ({ digest }) => out.bytes(digest)),
  received_at: (out, { message }) => out.int64(BigInt(message.receivedAt)),
  events: (out, { message }) => out.uint32(message.count),
  ...POSITION_COLUMNS,
});

function rollupColumns({ logId, partition }: Source): Columns<{ readonly lastOffset: number }> {
  return {
    log_id: (out) => out.uuid(logId),
    log_partition: (out) => out.uint32(partition),
    last_offset: (out, { lastOffset }) => out.uint64(lastOffset),
  };
}

export function quotaTable(source: Source): RowTable<Counted<QuotaKey>> {
  return rowTable('quota_usage_by_partition', {
    tenant_id: (out, { key }) => out.uuid(key.tenantId),
    month: (out, { key }) => out.uint16(key.monthDay),
    used: (out, { count }) => out.uint64(count),
    ...rollupColumns(source),
  });
}

export function excludedTable(source: Source): RowTable<Counted<ExcludedKey>> {
  return rowTable('left_out_by_partition', {
    tenant_id: (out, { key }) => out.uuid(key.tenantId),
    minute: (out, { key }) => out.uint32(key.minuteS),
    what: (out, { key }) => out.uint8(EXCLUSIONS.indexOf(key.what)),
    count: (out, { count }) => out.uint64(count),
    ...rollupColumns(source),
  });
}

export function minuteTable(source: Source): RowTable<Counted<MinuteKey>> {
  return rowTable('event_counts_by_partition', {
    tenant_id: (out, { key }) => out.uuid(key.tenantId),
    project_id: (out, { key }) => out.uuid(key.projectId),
    minute: (out, { key }) => out.uint32(key.minuteS),
    event_type: (out, { key }) => out.string(key.eventType),
    count: (out, { count }) => out.uint64(count),
    weight: (out, { weight, count }) => out.doubleLE(weight ?? count),
    ...rollupColumns(source),
  });
}
