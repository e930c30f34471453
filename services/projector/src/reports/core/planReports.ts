/** What the records of reports mean: which count, which retraction takes a report back, what links they tell of. Pure. */
import { namedEventsOf } from '@questlog/schemas/reportWindow';
import type { LinkSource } from '@questlog/schemas/topics/linkedEvents';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';

export interface Noted {
  readonly offset: number;
  readonly message: ReportLink;
}

/** Where a record lies; offsets of different logs or partitions do not compare. */
export interface Place {
  readonly logId: string;
  readonly partition: number;
  readonly offset: number;
}

/** The record that is the report. */
export interface Filing {
  readonly record: ReportLink;
  readonly place: Place;
  /** Milliseconds since the epoch. */
  readonly retractedAt: number | null;
}

export interface SortedReports {
  readonly filed: readonly Noted[];
  /** What befalls a report that was filed. */
  readonly later: readonly Noted[];
  readonly ignored: readonly Noted[];
}

/**
 * Reports are decided at their tenant's home. A filing or a retraction that lies elsewhere is taken there by the linker,
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
 * The report as taken back by the first retraction behind its filing; undefined where none is, or an earlier one was.
 * @param notes of the report, in the order of the log.
 */
export function retractionOf(
  filing: Filing,
  notes: readonly Noted[],
  source: Omit<Place, 'offset'>,
): Filing | undefined {
  if (filing.retractedAt !== null) return undefined;
  const first = notes.find(
    ({ offset, message }) => message.kind === 'retracted' && isBehind({ ...source, offset }, filing.place),
  );
  return first && { ...filing, retractedAt: first.message.receivedAt };
}

/** Of one log and another partition than the filing's is no retraction at home; of an older log all is earlier. */
function isBehind(place: Place, filing: Place): boolean {
  if (place.logId !== filing.logId) return true;
  return place.partition === filing.partition && place.offset > filing.offset;
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
 * The events that the linker gave up on. A notice does not say how the report named them, its filing does; where that
 * is not projected yet it was most likely by id, since inline events come with the report.
 */
export function unresolvedLinks(notes: readonly Noted[], filing: Filing | undefined): OpenLink[] {
  const sources = filing === undefined ? undefined : namedEventsOf(filing.record);
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
