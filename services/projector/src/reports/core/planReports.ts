/** Decides which bug reports and retractions are valid, and returns the rows of their links. */
import { namedEventsOf } from '@questlog/schemas/reportWindow';
import type { StoredReport } from '@questlog/schemas/tables/reports';
import { LINK_VERSIONS, type LinkSource, type LinkState } from '@questlog/schemas/topics/linkedEvents';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';

export interface ReportRecord {
  readonly offset: number;
  readonly message: ReportLink;
}

export interface SortedReports {
  readonly filed: readonly ReportRecord[];
  readonly later: readonly ReportRecord[];
  readonly ignored: readonly ReportRecord[];
}

export function sortReports(
  records: readonly ReportRecord[],
  isAtHome: (record: ReportLink) => boolean,
): SortedReports {
  const filed: ReportRecord[] = [];
  const later: ReportRecord[] = [];
  const ignored: ReportRecord[] = [];
  const bucketOf = (record: ReportLink): ReportRecord[] => {
    switch (record.kind) {
      case 'filed':
        return !record.isForwarded && isAtHome(record) ? filed : ignored;
      case 'retracted':
        return !record.isForwarded && isAtHome(record) ? later : ignored;
      case 'unresolved':
        return later;
      case 'retried':
        return ignored;
    }
  };
  for (const record of records) bucketOf(record.message).push(record);
  return { filed, later, ignored };
}

/** Returns the report with the first retraction that follows the report, or undefined if no retraction follows. */
export function retractionOf(
  report: StoredReport,
  notes: readonly ReportRecord[],
  source: Omit<StoredReport['position'], 'offset'>,
): StoredReport | undefined {
  if (report.retractedAt !== null) return undefined;
  const first = notes.find(
    ({ offset, message }) => message.kind === 'retracted' && isLater({ ...source, offset }, report.position),
  );
  return first && { ...report, retractedAt: first.message.receivedAt };
}

function isLater(place: StoredReport['position'], report: StoredReport['position']): boolean {
  if (place.logId !== report.logId) return true;
  return place.partition === report.partition && place.offset > report.offset;
}

export interface LinkRow {
  readonly tenantId: string;
  readonly projectId: string;
  readonly reportId: string;
  readonly eventId: string;
  readonly state: LinkState;
  readonly source: LinkSource;
  readonly version: number;
  readonly changedAt: number;
  readonly offset: number;
}

export function pendingLinks(filed: ReportRecord): LinkRow[] {
  return [...namedEventsOf(filed.message)].map(([eventId, source]) =>
    unlinkedRow(filed, eventId, 'pending', source),
  );
}

export function unresolvedLinks(notes: readonly ReportRecord[], report: StoredReport | undefined): LinkRow[] {
  const sources = report === undefined ? undefined : namedEventsOf(report.filed);
  return notes
    .filter(({ message }) => message.kind === 'unresolved')
    .flatMap((notice) =>
      notice.message.eventIds.map((eventId) =>
        unlinkedRow(notice, eventId, 'unresolved', sources?.get(eventId) ?? 'named'),
      ),
    );
}

function unlinkedRow(
  { offset, message }: ReportRecord,
  eventId: string,
  state: 'pending' | 'unresolved',
  source: LinkSource,
): LinkRow {
  const { tenantId, projectId, reportId, receivedAt: changedAt } = message;
  const version = LINK_VERSIONS[state];
  return { tenantId, projectId, reportId, eventId, state, source, version, changedAt, offset };
}
