/** Row encoders of the tables for reports and links (`deploy/clickhouse`). */
import { type RowTable, rowTable } from '@questlog/runtime/clickhouse/rowTable';
import { reportTimeOf, windowOf } from '@questlog/schemas/reportWindow';
import type { StoredReport } from '@questlog/schemas/tables/reports';
import { LINK_VERSIONS, type LinkSource } from '@questlog/schemas/topics/linkedEvents';
import { POSITION_COLUMNS } from '../rowSink.ts';
import type { Source } from '../writer.ts';
import type { LinkRow } from './core/planReports.ts';

/** Version numbers of a report's row. A retraction writes a new row, which replaces the first row and repeats all columns. */
const REPORT_VERSIONS = { filed: 0, retracted: 1 } as const;
const ATTACHMENT_STATES = { stored: 0, missing: 1 } as const;
const NO_BYTES = Buffer.alloc(0);
const LINK_SOURCES: Readonly<Record<LinkSource, number>> = { inline: 0, named: 1, session: 2 };

export const REPORTS = rowTable<StoredReport>('report_versions', {
  tenant_id: (out, { filed }) => out.uuid(filed.tenantId),
  project_id: (out, { filed }) => out.uuid(filed.projectId),
  id: (out, { filed }) => out.uuid(filed.reportId),
  session_id: (out, { filed }) => out.nullableUuid(filed.sessionId),
  session_lane: (out, { filed }) => out.nullable(filed.sessionLane, (lane) => out.uint32(lane)),
  build_id: (out, { filed }) => out.nullableUuid(filed.buildId),
  occurred_at: (out, { filed }) => out.int64(reportTimeOf(filed)),
  received_at: (out, { filed }) => out.int64(BigInt(filed.receivedAt)),
  window_before_ms: (out, { filed }) => out.uint32(filed.windowBeforeMs),
  window_after_ms: (out, { filed }) => out.uint32(filed.windowAfterMs),
  from_micros: (out, { filed }) => out.int64(windowOf(filed).fromMicros),
  to_micros: (out, { filed }) => out.int64(windowOf(filed).toMicros),
  inline_event_ids: (out, { filed }) => out.array(filed.inlineEventIds, (id) => out.uuid(id)),
  event_ids: (out, { filed }) => out.array(filed.eventIds, (id) => out.uuid(id)),
  request_sha256: (out, { filed }) => out.nullable(filed.requestDigest, (digest) => out.bytes(digest)),
  title: (out, { filed }) => out.string(filed.content?.title ?? ''),
  description: (out, { filed }) => out.string(filed.content?.description ?? ''),
  severity: (out, { filed }) => out.string(filed.content?.severity ?? ''),
  reporter_type: (out, { filed }) => out.string(filed.content?.reporterType ?? ''),
  source_channel: (out, { filed }) => out.string(filed.content?.sourceChannel ?? ''),
  fingerprint: (out, { filed }) => out.string(filed.content?.fingerprint ?? ''),
  named_session_id: (out, { filed }) => out.nullableUuid(filed.content?.namedSessionId ?? null),
  context: (out, { filed }) => out.stringBytes(filed.content?.context ?? NO_BYTES),
  attachments: (out, { filed }) =>
    out.array(filed.content?.attachments ?? [], (attachment) => {
      out.uuid(attachment.uploadId);
      out.string(attachment.attachmentType);
      out.string(attachment.fileName);
      out.string(attachment.mimeType ?? '');
      out.nullable(attachment.sizeBytes, (size) => out.uint64(size));
      out.uint8(ATTACHMENT_STATES[attachment.state]);
    }),
  max_session_links: (out, { filed }) => out.uint32(filed.maxSessionLinks),
  filed_by: (out, { filed }) => out.nullableUuid(filed.filedBy),
  retracted_at: (out, { retractedAt }) => out.nullable(retractedAt, (atMs) => out.int64(BigInt(atMs))),
  version: (out, { retractedAt }) =>
    out.uint8(retractedAt === null ? REPORT_VERSIONS.filed : REPORT_VERSIONS.retracted),
  ...POSITION_COLUMNS,
});

export function linkTable({ logId, partition }: Source): RowTable<LinkRow> {
  return rowTable('report_link_versions', {
    tenant_id: (out, row) => out.uuid(row.tenantId),
    project_id: (out, row) => out.uuid(row.projectId),
    report_id: (out, row) => out.uuid(row.reportId),
    event_id: (out, row) => out.uuid(row.eventId),
    state: (out, row) => out.uint8(LINK_VERSIONS[row.state]),
    source: (out, row) => out.uint8(LINK_SOURCES[row.source]),
    version: (out, row) => out.uint8(row.version),
    changed_at: (out, row) => out.int64(BigInt(row.changedAt)),
    log_id: (out) => out.uuid(logId),
    log_partition: (out) => out.uint32(partition),
    log_offset: (out, row) => out.uint64(row.offset),
  });
}
