/** A row of `reports` (`deploy/clickhouse/006-reports.sql`) as services read it, and the record behind it. */
import type { ReportLink } from '../topics/reportLinks.ts';

export interface StoredReport {
  /** The filed record, with the report's time also where none was sent. */
  readonly filed: ReportLink;
  /** Milliseconds since the epoch. */
  readonly retractedAt: number | null;
  /** The record's place in the log. */
  readonly place: { readonly logId: string; readonly partition: number; readonly offset: number };
}

export const REPORT_COLUMNS = `tenant_id, project_id, id, session_id, session_lane,
  toUnixTimestamp64Micro(occurred_at) AS occurred_at_micros, toUnixTimestamp64Milli(received_at) AS received_at_millis,
  window_before_ms, window_after_ms, inline_event_ids, event_ids, lower(hex(request_sha256)) AS digest,
  toUnixTimestamp64Milli(retracted_at) AS retracted_at_millis, log_id, log_partition, log_offset`;

export interface ReportRow {
  readonly tenant_id: string;
  readonly project_id: string;
  readonly id: string;
  readonly session_id: string | null;
  readonly session_lane: number | null;
  readonly occurred_at_micros: string;
  readonly received_at_millis: string;
  readonly window_before_ms: number;
  readonly window_after_ms: number;
  readonly inline_event_ids: readonly string[];
  readonly event_ids: readonly string[];
  readonly digest: string | null;
  readonly retracted_at_millis: string | null;
  readonly log_id: string;
  readonly log_partition: number;
  readonly log_offset: string;
}

export function storedReport(row: ReportRow): StoredReport {
  const filed: ReportLink = {
    kind: 'filed',
    tenantId: row.tenant_id,
    projectId: row.project_id,
    reportId: row.id,
    receivedAt: Number(row.received_at_millis),
    occurredAt: BigInt(row.occurred_at_micros),
    sessionId: row.session_id,
    sessionLane: row.session_lane,
    windowBeforeMs: row.window_before_ms,
    windowAfterMs: row.window_after_ms,
    inlineEventIds: row.inline_event_ids,
    eventIds: row.event_ids,
    requestDigest: row.digest === null ? null : Buffer.from(row.digest, 'hex'),
    isForwarded: false,
  };
  const retractedAt = row.retracted_at_millis === null ? null : Number(row.retracted_at_millis);
  const place = { logId: row.log_id, partition: row.log_partition, offset: Number(row.log_offset) };
  return { filed, retractedAt, place };
}
