/** Decides what the records of reports mean: which count, which retraction counts, what links they tell of. Pure. */
import { namedEventsOf } from '@questlog/schemas/reportWindow';
import type { LinkSource } from '@questlog/schemas/topics/linkedEvents';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';

export interface Noted {
  readonly offset: number;
  readonly message: ReportLink;
}

/** A record's place; offsets of different logs or partitions do not compare. */
export interface Place {
  readonly logId: string;
  readonly partition: number;
  readonly offset: number;
}

/** The record that is the report. */
export interface FiledReport {
  readonly record: ReportLink;
  readonly place: Place;
  /** Milliseconds since the epoch. */
  readonly retractedAt: number | null;
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
  report: FiledReport,
  notes: readonly Noted[],
  source: Omit<Place, 'offset'>,
): FiledReport | undefined {
  if (report.retractedAt !== null) return undefined;
  const first = notes.find(
    ({ offset, message }) => message.kind === 'retracted' && isBehind({ ...source, offset }, report.place),
  );
  return first && { ...report, retractedAt: first.message.receivedAt };
}

/** A retraction on another partition of the log is not at home; everything in an older log is earlier. */
function isBehind(place: Place, report: Place): boolean {
  if (place.logId !== report.logId) return true;
  return place.partition === report.partition && place.offset > report.offset;
}

export interface OpenLink {
  readonly tenantId: string;
  readonly projectId: string;
  readonly reportId: string;
  readonly eventId: string;
  readonly state: 'pending' | 'unresolved';
  readonly source: LinkSource;
  readonly changedAt: number;
  readonly offset: number;
}

/** Every event that a filed report names is waited for. */
export function pendingLinks(filed: Noted): OpenLink[] {
  return [...namedEventsOf(filed.message)].map(([eventId, source]) =>
    openLink(filed, eventId, 'pending', source),
  );
}

/**
 * The events that the linker gave up on. A notice does not say how the report named them, the report does; where that
 * is not projected yet it was most likely by id, since inline events come with the report.
 */
export function unresolvedLinks(notes: readonly Noted[], report: FiledReport | undefined): OpenLink[] {
  const sources = report === undefined ? undefined : namedEventsOf(report.record);
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
  state: OpenLink['state'],
  source: LinkSource,
): OpenLink {
  const { tenantId, projectId, reportId, receivedAt } = message;
  return { tenantId, projectId, reportId, eventId, state, source, changedAt: receivedAt, offset };
}
