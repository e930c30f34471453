/** Writes the JSON of bug reports for responses. Copies payloads and contexts as bytes without parsing them. Pure. */

import type { ListedReport } from '@questlog/schemas/http/report';
import { formatMicros } from '@questlog/schemas/isoTime';
import { reportTimeOf } from '@questlog/schemas/reportWindow';
import type { Attachment, ReportContent, ReportLink } from '@questlog/schemas/topics/reportLinks';
import type { ShownLinks } from '../../entityCache/links.ts';
import { type AnsweredEvent, eventArray, join } from '../../events/core/answer.ts';
import { type Expiry, isMadeBefore } from '../../expired/expiry.ts';

export interface AnsweredReport extends ShownLinks {
  readonly filed: ReportLink;
  readonly isRetracted: boolean;
}

export type ShownContent = Omit<ReportContent, 'attachments'> & {
  readonly attachments: readonly (Omit<Attachment, 'state'> & {
    readonly state: Attachment['state'] | 'expired';
  })[];
};

export function withExpired(content: ReportContent, expiry: Pick<Expiry, 'uploads'>): ShownContent {
  const attachments = content.attachments.map((file) =>
    file.state === 'stored' && isMadeBefore(file.uploadId, expiry.uploads)
      ? { ...file, state: 'expired' as const }
      : file,
  );
  return { ...content, attachments };
}

export function reportObject(
  report: AnsweredReport,
  content: ShownContent | null,
  sequence: object | null,
): Buffer {
  const counted = `,"sequence":${JSON.stringify(sequence)}`;
  return join([`{${head(report)},`, ...contentOf(content), counted, `,${tail(report)}}`]);
}

export interface CreatedExtras {
  readonly idempotent?: boolean;
  readonly eventIdsTruncated: boolean;
  readonly attachmentsMissing: readonly string[];
}

export function createdReport(
  report: AnsweredReport,
  events: readonly AnsweredEvent[],
  { idempotent, eventIdsTruncated, attachmentsMissing }: CreatedExtras,
): Buffer {
  const more =
    (idempotent === true ? ',"idempotent":true' : '') +
    (eventIdsTruncated ? ',"eventIdsTruncated":true' : '') +
    (attachmentsMissing.length === 0 ? '' : `,"attachmentsMissing":${JSON.stringify(attachmentsMissing)}`);
  return join([`{${head(report)}${more},"events":`, eventArray(events), `,${tail(report)}}`]);
}

function head({ filed, isRetracted }: AnsweredReport): string {
  return JSON.stringify(reportHead(filed, isRetracted)).slice(1, -1);
}

type Filed = Pick<
  ReportLink,
  'reportId' | 'sessionId' | 'buildId' | 'occurredAt' | 'receivedAt' | 'windowBeforeMs' | 'windowAfterMs'
>;

export function reportHead(filed: Filed, isRetracted: boolean): Omit<ListedReport, 'report'> {
  const { reportId, sessionId, buildId, windowBeforeMs, windowAfterMs } = filed;
  const state = isRetracted ? 'retracted' : 'filed';
  return {
    id: reportId,
    reportId,
    status: state,
    sessionId,
    buildId,
    occurredAt: formatMicros(reportTimeOf(filed)),
    receivedAt: formatMicros(BigInt(filed.receivedAt) * 1000n),
    window: { beforeMs: windowBeforeMs, afterMs: windowAfterMs },
    state,
  };
}

function contentOf(content: ShownContent | null): (string | Buffer)[] {
  if (content === null) return ['"report":null,"context":null,"attachments":[]'];
  const { namedSessionId: _, context, attachments, ...texts } = content;
  const report = texts.title === null ? null : texts;
  return [
    `"report":${JSON.stringify(report)},"context":`,
    context ?? 'null',
    `,"attachments":${JSON.stringify(attachments)}`,
  ];
}

function tail({ links, linksTruncated, truncated }: AnsweredReport): string {
  return `"links":${JSON.stringify(links)},"linksTruncated":${linksTruncated},"truncated":${truncated}`;
}
