/** Rows of the tables that an accepted event reaches (`deploy/clickhouse`), as RowBinary. */
import { RowBinaryWriter } from '@questlog/runtime/clickhouse/rowBinary';
import { millisOf } from '@questlog/schemas/uuid';
import type { Source } from '../writer.ts';
import type { Accepted, Count, MinuteKey, QuotaKey } from './core/planEvents.ts';

/** Names a block's rows; the same for whoever writes the block. */
export function tokenOf(source: Source, block: { topic: string; start: number; end: number }): string {
  return `${source.logId}/${block.topic}/${source.partition}/${block.start}-${block.end}`;
}

export interface RowsFor {
  readonly table: string;
  readonly columns: readonly string[];
  /** The rows of the records whose offset is wanted. */
  write(wanted: (offset: number) => boolean): Buffer;
}

export function eventRows(source: Source, records: readonly Accepted[]): RowsFor {
  return {
    table: 'events',
    columns: [
      'id',
      'tenant_id',
      'project_id',
      'session_id',
      'build_id',
      'event_type',
      'occurred_at',
      'received_at',
      'payload',
      'over_quota',
      'log_id',
      'log_partition',
      'log_offset',
      'log_index',
      'id_at',
    ],
    write: (wanted) => {
      const written = records.filter(({ offset }) => wanted(offset));
      const out = new RowBinaryWriter(written.reduce((sum, record) => sum + bytesOf(record), 0));
      for (const record of written) writeEvents(out, source, record);
      return out.bytes();
    },
  };
}

/** All of an event's row but its payload: 6 UUIDs, 7 numbers, and room for the type and the lengths. */
const ROW_BYTES = 256;

/** The size of the record's rows, about: a buffer that has to grow is copied, and for a while there twice. */
function bytesOf({ message }: Accepted): number {
  return message.events.reduce((sum, { payload }) => sum + payload.length + ROW_BYTES, 0);
}

function writeEvents(out: RowBinaryWriter, source: Source, { offset, message }: Accepted): void {
  let index = 0;
  for (const event of message.events) {
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
    out.uuid(source.logId);
    out.uint32(source.partition);
    out.uint64(offset);
    out.uint32(index++);
    out.uint64(millisOf(event.id));
  }
}

export function appendRows(source: Source, records: readonly Accepted[]): RowsFor {
  return {
    table: 'appends',
    columns: [
      'append_id',
      'tenant_id',
      'project_id',
      'idempotency_key',
      'body_sha256',
      'received_at',
      'events',
      'log_id',
      'log_partition',
      'log_offset',
    ],
    write: (wanted) => {
      const out = new RowBinaryWriter();
      for (const { offset, message } of records) {
        if (!wanted(offset)) continue;
        out.uuid(message.appendId);
        out.uuid(message.tenantId);
        out.uuid(message.projectId);
        out.nullableUuid(message.idempotency?.key ?? null);
        out.nullable(message.idempotency, ({ digest }) => out.fixed(digest));
        out.int64(BigInt(message.receivedAt));
        out.uint32(message.events.length);
        out.uuid(source.logId);
        out.uint32(source.partition);
        out.uint64(offset);
      }
      return out.bytes();
    },
  };
}

export function quotaRows(source: Source, counts: readonly (Count & { key: QuotaKey })[]): RowsFor {
  return {
    table: 'quota_usage_by_partition',
    columns: ['tenant_id', 'month', 'log_id', 'log_partition', 'used', 'last_offset'],
    write: () => {
      const out = new RowBinaryWriter();
      for (const { key, count, lastOffset } of counts) {
        out.uuid(key.tenantId);
        out.uint16(key.monthDay);
        out.uuid(source.logId);
        out.uint32(source.partition);
        out.uint64(count);
        out.uint64(lastOffset);
      }
      return out.bytes();
    },
  };
}

export function minuteCountRows(source: Source, counts: readonly (Count & { key: MinuteKey })[]): RowsFor {
  return {
    table: 'event_counts_by_partition',
    columns: [
      'tenant_id',
      'project_id',
      'minute',
      'event_type',
      'log_id',
      'log_partition',
      'count',
      'last_offset',
    ],
    write: () => {
      const out = new RowBinaryWriter();
      for (const { key, count, lastOffset } of counts) {
        out.uuid(key.tenantId);
        out.uuid(key.projectId);
        out.uint32(key.minuteS);
        out.string(key.eventType);
        out.uuid(source.logId);
        out.uint32(source.partition);
        out.uint64(count);
        out.uint64(lastOffset);
      }
      return out.bytes();
    },
  };
}
