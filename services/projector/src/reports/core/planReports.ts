/** Decides what the records of reports mean: which count, which retraction counts, what links they tell of. Pure. */
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
  /** Notes about a report that was filed before. */
  readonly later: readonly ReportRecord[];
  readonly ignored: readonly ReportRecord[];
}

/**
 * Reports are decided at their tenant's home. A report or a retraction that lies elsewhere is taken there by the linker,
 * and copies of those that lie at home are for linkers only. Notices of the linker count wherever they lie.
 */
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

/**
 * The report as taken back by the first retraction behind it; undefined if there is none, or it was taken back before.
 * @param notes of the report, in the order of the log.
 */
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

/** A retraction on another partition of the log is not at home; everything in an older log is earlier. */
function isLater(place: StoredReport['position'], report: StoredReport['position']): boolean {
  if (place.logId !== report.logId) return true;
  return place.partition === report.partition && place.offset > report.offset;
}

/** A row of `report_link_versions`. */
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

/** Every event that a filed report names is waited for. */
export function pendingLinks(filed: ReportRecord): LinkRow[] {
  return [...namedEventsOf(filed.message)].map(([eventId, source]) =>
    unlinkedRow(filed, eventId, 'pending', source),
  );
}

/**
 * The events that the linker gave up on. A notice does not say how the report named them, the report does; where that
 * is not projected yet it was most likely by id, since inline events come with the report.
 */
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
