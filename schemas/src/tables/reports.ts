/** Columns and row types of the table `reports`. The content of a report can have 200 KB and is read by a separate query. */
import type { Attachment, ReportContent, ReportLink } from '../topics/reportLinks.ts';

export interface StoredReport {
  /** Record that creates a report (kind `filed`), without the content of the report. The field `occurredAt` is never null. */
  readonly filed: ReportLink;
  readonly retractedAt: number | null;
  readonly position: { readonly logId: string; readonly partition: number; readonly offset: number };
}

export const COMMON_COLUMNS = `id AS reportId, session_id AS sessionId, build_id AS buildId,
  toUnixTimestamp64Micro(occurred_at) AS occurredAt, toUnixTimestamp64Milli(received_at) AS receivedAt,
  window_before_ms AS windowBeforeMs, window_after_ms AS windowAfterMs,
  toUnixTimestamp64Milli(retracted_at) AS retractedAt`;

export const REPORT_COLUMNS = `${COMMON_COLUMNS}, tenant_id AS tenantId, project_id AS projectId,
  session_lane AS sessionLane, inline_event_ids AS inlineEventIds, event_ids AS eventIds,
  lower(hex(request_sha256)) AS requestDigest, filed_by AS filedBy,
  max_session_links AS maxSessionLinks, log_id AS logId, log_partition AS logPartition, log_offset AS logOffset`;

/** Row with the columns of `REPORT_COLUMNS`. ClickHouse returns 64-bit integers and bytes as strings. */
export interface ReportRow
  extends Omit<
    ReportLink,
    'kind' | 'isForwarded' | 'content' | 'occurredAt' | 'receivedAt' | 'requestDigest'
  > {
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
    content: null,
  };
  const position = { logId, partition: logPartition, offset: Number(logOffset) };
  return { filed, retractedAt: retractedAt === null ? null : Number(retractedAt), position };
}

export const TEXT_COLUMNS =
  'title, severity, reporter_type AS reporterType, source_channel AS sourceChannel, fingerprint';

export type TextRow = Record<'title' | 'severity' | 'reporterType' | 'sourceChannel' | 'fingerprint', string>;

export function textsOfRow(row: TextRow): { readonly [text in keyof TextRow]: string | null } {
  return {
    title: row.title || null,
    severity: row.severity || null,
    reporterType: row.reporterType || null,
    sourceChannel: row.sourceChannel || null,
    fingerprint: row.fingerprint || null,
  };
}

/** Columns of the content of a report. A column contains an empty string if the client did not send the text. */
export const CONTENT_COLUMNS = `${TEXT_COLUMNS}, description, named_session_id AS namedSessionId, context,
  arrayMap(file -> tuple(file.upload_id, file.type, file.file_name, file.mime_type, file.size_bytes, file.state),
    attachments) AS files`;

export interface ContentRow extends TextRow {
  readonly description: string;
  readonly namedSessionId: string | null;
  readonly context: string;
  readonly files: readonly (readonly [
    uploadId: string,
    attachmentType: string,
    fileName: string,
    mimeType: string,
    sizeBytes: string | null,
    state: Attachment['state'],
  ])[];
}

export function contentOfRow(row: ContentRow): ReportContent | null {
  const { context, namedSessionId, files } = row;
  const { title, ...texts } = textsOfRow(row);
  if (title === null && context === '' && files.length === 0) return null;
  return {
    title,
    description: row.description || null,
    ...texts,
    namedSessionId,
    context: context === '' ? null : Buffer.from(context, 'utf8'),
    attachments: files.map(([uploadId, attachmentType, fileName, mimeType, sizeBytes, state]) => ({
      ...{ uploadId, attachmentType, fileName, state },
      mimeType: mimeType || null,
      sizeBytes: sizeBytes === null ? null : Number(sizeBytes),
    })),
  };
}
