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

export const REPORT_COLUMNS = `tenant_id AS tenantId, project_id AS projectId, id AS reportId, session_id AS sessionId,
  session_lane AS sessionLane, toUnixTimestamp64Micro(occurred_at) AS occurredAt,
  toUnixTimestamp64Milli(received_at) AS receivedAt, window_before_ms AS windowBeforeMs,
  window_after_ms AS windowAfterMs, inline_event_ids AS inlineEventIds, event_ids AS eventIds,
  lower(hex(request_sha256)) AS requestDigest, toUnixTimestamp64Milli(retracted_at) AS retractedAt,
  log_id AS logId, log_partition AS logPartition, log_offset AS logOffset`;

/** A report as `REPORT_COLUMNS` give it: 64-bit integers and bytes are text. */
export interface ReportRow
  extends Omit<ReportLink, 'kind' | 'isForwarded' | 'occurredAt' | 'receivedAt' | 'requestDigest'> {
  readonly occurredAt: string;
  readonly receivedAt: string;
  readonly requestDigest: string | null;
  readonly retractedAt: string | null;
  readonly logId: string;
  readonly logPartition: number;
  readonly logOffset: string;
}

export function storedReport(row: ReportRow): StoredReport {
  const { retractedAt, logId, logPartition, logOffset, ...fields } = row;
  const filed: ReportLink = {
    ...fields,
    kind: 'filed',
    occurredAt: BigInt(row.occurredAt),
    receivedAt: Number(row.receivedAt),
    requestDigest: row.requestDigest === null ? null : Buffer.from(row.requestDigest, 'hex'),
    isForwarded: false,
  };
  const place = { logId, partition: logPartition, offset: Number(logOffset) };
  return { filed, retractedAt: retractedAt === null ? null : Number(retractedAt), place };
}
