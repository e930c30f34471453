/** Computes the expected links of a modelled log by a brute-force join. */
import { keyOf } from '@questlog/linker/core/decision';
import type { ModelTopics } from '@questlog/linker/testing/modelTables';
import { closesAtMs, isInWindow, namedEventsOf, windowOf } from '@questlog/schemas/reportWindow';
import type { AcceptedEvent, EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { type LinkedEvent, type LinkSource, linkIdOf } from '@questlog/schemas/topics/linkedEvents';
import { isAtHome, type ReportLink } from '@questlog/schemas/topics/reportLinks';

export interface Sent {
  readonly topics: ModelTopics;
  readonly lanes: ReadonlyMap<string, number>;
  /** Time at which each event first arrived, in milliseconds since the epoch, by event id. */
  readonly arrivedAt: ReadonlyMap<string, number>;
  /** True if every report is closed. Before that, a missing event is only pending. */
  readonly isOver: boolean;
  /** Reports by `keyOf` and events by id whose records a truncation removed; their links are optional. */
  readonly lost?: { readonly reports: ReadonlySet<string>; readonly events: ReadonlySet<string> };
}

const NOTHING_LOST = { reports: new Set<string>(), events: new Set<string>() };

interface Judged {
  readonly record: ReportLink;
  readonly isRetracted: boolean;
}

/** Returns a sentence for each difference between the actual and the expected links. */
export function findingsOn({ topics, lanes, arrivedAt, isOver, lost = NOTHING_LOST }: Sent): string[] {
  const findings: string[] = [];
  const reports = judgedReports(topics);
  const made = new Map<string, LinkedEvent[]>();
  for (const link of topics.links.flat()) made.set(link.linkId, [...(made.get(link.linkId) ?? []), link]);
  const bySession = Map.groupBy(
    [...made.values()].flatMap(([link]) => (link?.source === 'session' ? [link] : [])),
    keyOf,
  );
  const unresolved = new Set(
    topics.reports
      .flat()
      .filter(({ kind }) => kind === 'unresolved')
      .flatMap(({ projectId, reportId, eventIds }) =>
        eventIds.map((id) => linkIdOf(projectId, reportId, id)),
      ),
  );
  const events = distinctEvents(topics.events.flat());
  const expected = new Set<string>();
  for (const { record, isRetracted } of reports.values()) {
    if (lost.reports.has(keyOf(record))) continue;
    const sources = namedEventsOf(record);
    const isOf = sessionEventsOf(record, events, lanes);
    const own = (bySession.get(keyOf(record)) ?? []).map(({ event }) => event.id);
    const most = record.maxSessionLinks;
    if (own.length > most)
      findings.push(`report ${record.reportId} has ${own.length} links by its session, and may have ${most}`);
    // Lost events may have been among the first; then only the number of links is checked.
    const isUnsure = [...own, ...isOf].some((id) => lost.events.has(id) || !isOf.includes(id));
    for (const { event, message } of events.values()) {
      const source = sourceOf(record, sources, event, message, lanes);
      if (source === undefined) continue;
      const id = linkIdOf(record.projectId, record.reportId, event.id);
      if (source === 'session' && isUnsure && own.length >= most) {
        expected.add(id);
        continue;
      }
      if (source === 'session' && !isUnsure && isOf.indexOf(event.id) >= most) continue;
      expected.add(id);
      sources.delete(event.id);
      if (lost.events.has(event.id)) continue;
      const isLate = source !== 'session' && (arrivedAt.get(event.id) ?? 0) >= closesAtMs(record);
      const kinds = (made.get(id) ?? []).map(({ kind }) => kind).join(' then ');
      const may = isRetracted ? ['linked then unlinked', ''] : isLate ? ['linked', ''] : ['linked'];
      const name = `report ${record.reportId} and event ${event.id} (${source})`;
      if (!may.includes(kinds)) findings.push(`${name}: "${kinds}" instead of "${may.join('" or "')}"`);
      if (kinds === '' && isLate && !isRetracted && !unresolved.has(id))
        findings.push(`${name}: neither linked nor unresolved`);
      for (const link of made.get(id) ?? []) {
        if (link.source !== source) findings.push(`${name}: its source is ${link.source}`);
      }
    }
    for (const eventId of isRetracted || !isOver ? [] : sources.keys()) {
      if (lost.events.has(eventId)) continue;
      if (!unresolved.has(linkIdOf(record.projectId, record.reportId, eventId)))
        findings.push(`report ${record.reportId} names ${eventId}, which never came and is not unresolved`);
    }
  }
  for (const [id, [link]] of made) {
    if (link && (lost.events.has(link.event.id) || lost.reports.has(keyOf(link)))) continue;
    if (!expected.has(id)) findings.push(`report ${link?.reportId} must not be linked to ${link?.event.id}`);
  }
  return findings;
}

/** Returns the events that a report gets by its session and window, in the order of the log. */
function sessionEventsOf(
  record: ReportLink,
  events: ReturnType<typeof distinctEvents>,
  lanes: ReadonlyMap<string, number>,
): string[] {
  const sources = namedEventsOf(record);
  return [...events.values()]
    .filter(({ event, message }) => sourceOf(record, sources, event, message, lanes) === 'session')
    .map(({ event }) => event.id);
}

/** Returns the reports. The first record of an id in its tenant's home partition is the report; a later retraction retracts it. */
function judgedReports(topics: ModelTopics): Map<string, Judged> {
  const reports = new Map<string, Judged>();
  for (const [partition, log] of topics.reports.entries()) {
    for (const record of log) {
      if (record.isForwarded || !isAtHome(record, partition, topics.reports.length)) continue;
      const known = reports.get(keyOf(record));
      if (record.kind === 'filed' && known === undefined)
        reports.set(keyOf(record), { record, isRetracted: false });
      if (record.kind === 'retracted' && known !== undefined)
        reports.set(keyOf(record), { ...known, isRetracted: true });
    }
  }
  return reports;
}

function distinctEvents(messages: readonly EventsAccepted[]) {
  const events = new Map<string, { event: AcceptedEvent; message: EventsAccepted }>();
  for (const message of messages) {
    for (const event of message.events) if (!events.has(event.id)) events.set(event.id, { event, message });
  }
  return events;
}

function sourceOf(
  record: ReportLink,
  named: ReadonlyMap<string, LinkSource>,
  event: AcceptedEvent,
  { tenantId, projectId }: EventsAccepted,
  lanes: ReadonlyMap<string, number>,
): LinkSource | undefined {
  if (record.tenantId !== tenantId || record.projectId !== projectId) return undefined;
  const source = named.get(event.id);
  if (source !== undefined) return source;
  const isKnown = record.sessionLane !== null || lanes.has(`${projectId}/${record.sessionId}`);
  const isOfSession = record.sessionId !== null && record.sessionId === event.sessionId && isKnown;
  return isOfSession && isInWindow(event.occurredAt, windowOf(record)) ? 'session' : undefined;
}
