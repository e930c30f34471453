/** The answers that show a bug report: the report, its links, and its events with the payload bytes that came in. Pure. */
import { reportTimeOf } from '@questlog/schemas/reportWindow';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { formatMicros } from '../../core/occurredAt.ts';
import { type AnsweredEvent, eventArray, join } from '../../events/core/answer.ts';
import type { ShownLinks } from '../../known/links.ts';

export interface AnsweredReport extends ShownLinks {
  readonly filed: ReportLink;
  readonly isRetracted: boolean;
}

export function reportObject(report: AnsweredReport): Buffer {
  return join([`{${head(report)},${tail(report)}}`]);
}

/** With the events that came in the report. */
export function createdReport(report: AnsweredReport, events: readonly AnsweredEvent[]): Buffer {
  return join([`{${head(report)},"events":`, eventArray(events), `,${tail(report)}}`]);
}

function head({ filed, isRetracted }: AnsweredReport): string {
  const { reportId, sessionId, windowBeforeMs, windowAfterMs } = filed;
  const receivedAt = formatMicros(BigInt(filed.receivedAt) * 1000n);
  return (
    `"id":"${reportId}","sessionId":${sessionId === null ? 'null' : `"${sessionId}"`},` +
    `"occurredAt":"${formatMicros(reportTimeOf(filed))}","receivedAt":"${receivedAt}",` +
    `"window":{"beforeMs":${windowBeforeMs},"afterMs":${windowAfterMs}},"state":"${isRetracted ? 'retracted' : 'filed'}"`
  );
}

function tail({ links, linksTruncated }: AnsweredReport): string {
  return `"links":${JSON.stringify(links)},"linksTruncated":${linksTruncated}`;
}
