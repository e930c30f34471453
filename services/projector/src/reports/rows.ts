/** Rows of the tables that reports and links reach (`deploy/clickhouse`), as RowBinary. */
import { reportTimeOf, windowOf } from '@questlog/schemas/reportWindow';
import { LINK_VERSIONS, type LinkSource, type LinkState } from '@questlog/schemas/topics/linkedEvents';
import type { RowTable } from '../rowSink.ts';
import type { Source } from '../writer.ts';
import type { FiledReport } from './core/planReports.ts';

/** A retracted report is the filed one once more, so that whoever reads one row reads all of it. */
const REPORT_VERSIONS = { filed: 0, retracted: 1 } as const;
const LINK_SOURCES: Readonly<Record<LinkSource, number>> = { inline: 0, named: 1, session: 2 };

export const REPORT_TABLE: RowTable<FiledReport> = {
  table: 'report_versions',
  columns: [
    'tenant_id',
    'project_id',
    'id',
    'session_id',
    'session_lane',
    'occurred_at',
    'received_at',
    'window_before_ms',
    'window_after_ms',
    'from_micros',
    'to_micros',
    'inline_event_ids',
    'event_ids',
    'request_sha256',
    'retracted_at',
    'version',
    'log_id',
    'log_partition',
    'log_offset',
  ],
  write: (out, { record, place, retractedAt }) => {
    const { fromMicros, toMicros } = windowOf(record);
    out.uuid(record.tenantId);
    out.uuid(record.projectId);
    out.uuid(record.reportId);
    out.nullableUuid(record.sessionId);
    out.nullable(record.sessionLane, (lane) => out.uint32(lane));
    out.int64(reportTimeOf(record));
    out.int64(BigInt(record.receivedAt));
    out.uint32(record.windowBeforeMs);
    out.uint32(record.windowAfterMs);
    out.int64(fromMicros);
    out.int64(toMicros);
    out.arrayOfUuids(record.inlineEventIds);
    out.arrayOfUuids(record.eventIds);
    out.nullable(record.requestDigest, (digest) => out.fixed(digest));
    out.nullable(retractedAt, (atMs) => out.int64(BigInt(atMs)));
    out.uint8(retractedAt === null ? REPORT_VERSIONS.filed : REPORT_VERSIONS.retracted);
    out.uuid(place.logId);
    out.uint32(place.partition);
    out.uint64(place.offset);
  },
};

export interface LinkRow {
  readonly tenantId: string;
  readonly projectId: string;
  readonly reportId: string;
  readonly eventId: string;
  readonly state: LinkState;
  readonly source: LinkSource;
  readonly version: number;
  readonly changedAt: number;
  /** The offset of the record that says so. */
  readonly offset: number;
}

export function linkTable(source: Source): RowTable<LinkRow> {
  return {
    table: 'report_link_versions',
    columns: [
      'tenant_id',
      'project_id',
      'report_id',
      'event_id',
      'state',
      'source',
      'version',
      'changed_at',
      'log_id',
      'log_partition',
      'log_offset',
    ],
    write: (out, row) => {
      out.uuid(row.tenantId);
      out.uuid(row.projectId);
      out.uuid(row.reportId);
      out.uuid(row.eventId);
      out.uint8(LINK_VERSIONS[row.state]);
      out.uint8(LINK_SOURCES[row.source]);
      out.uint8(row.version);
      out.int64(BigInt(row.changedAt));
      out.uuid(source.logId);
      out.uint32(source.partition);
      out.uint64(row.offset);
    },
  };
}
