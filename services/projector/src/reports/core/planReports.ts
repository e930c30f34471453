/** Decides what the records of reports mean: which count, which retraction counts, what links they tell of. Pure. */
import { namedEventsOf } from '@questlog/schemas/reportWindow';
import type { StoredReport } from '@questlog/schemas/tables/reports';
import { LINK_VERSIONS, type LinkSource, type LinkState } from '@questlog/schemas/topics/linkedEvents';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';

export interface Noted {
  readonly offset: number;
  readonly message: ReportLink;
}

export interface SortedReports {
  readonly filed: readonly Noted[];
  /** Notes about a report that was filed before. */
  readonly later: readonly Noted[];
  readonly ignored: readonly Noted[];
}

/**
 * Reports are decided at their tenant's home. A report or a retraction that lies elsewhere is taken there by the linker,
 * and copies of those that lie at home are for linkers only. Notices of the linker count wherever they lie.
 */
export function sortReports(
  records: readonly Noted[],
  isAtHome: (record: ReportLink) => boolean,
): SortedReports {
  const filed: Noted[] = [];
  const later: Noted[] = [];
  const ignored: Noted[] = [];
  const bucketOf = (record: ReportLink): Noted[] => {
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
  for (const noted of records) bucketOf(noted.message).push(noted);
  return { filed, later, ignored };
}

/**
 * The report as taken back by the first retraction behind it; undefined if there is none, or it was taken back before.
 * @param notes of the report, in the order of the log.
 */
export function retractionOf(
  report: StoredReport,
  notes: readonly Noted[],
  source: Omit<StoredReport['place'], 'offset'>,
): StoredReport | undefined {
  if (report.retractedAt !== null) return undefined;
  const first = notes.find(
    ({ offset, message }) => message.kind === 'retracted' && isBehind({ ...source, offset }, report.place),
  );
  return first && { ...report, retractedAt: first.message.receivedAt };
}

/** A retraction on another partition of the log is not at home; everything in an older log is earlier. */
function isBehind(place: StoredReport['place'], report: StoredReport['place']): boolean {
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
export function pendingLinks(filed: Noted): LinkRow[] {
  return [...namedEventsOf(filed.message)].map(([eventId, source]) =>
    openLink(filed, eventId, 'pending', source),
  );
}

/**
 * The events that the linker gave up on. A notice does not say how the report named them, the report does; where that
 * is not projected yet it was most likely by id, since inline events come with the report.
 */
export function unresolvedLinks(notes: readonly Noted[], report: StoredReport | undefined): LinkRow[] {
  const sources = report === undefined ? undefined : namedEventsOf(report.filed);
  return notes
    .filter(({ message }) => message.kind === 'unresolved')
    .flatMap((notice) =>
      notice.message.eventIds.map((eventId) =>
        openLink(notice, eventId, 'unresolved', sources?.get(eventId) ?? 'named'),
      ),
    );
}

function openLink(
  { offset, message }: Noted,
  eventId: string,
  state: 'pending' | 'unresolved',
  source: LinkSource,
): LinkRow {
  const { tenantId, projectId, reportId, receivedAt: changedAt } = message;
  const version = LINK_VERSIONS[state];
  return { tenantId, projectId, reportId, eventId, state, source, version, changedAt, offset };
}
