/** The links of events and bug reports: what ClickHouse has of them, and what is certain before the linker has made it. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import { namedEventsOf, windowOf } from '@questlog/schemas/reportWindow';
import type { LinkSource, LinkState } from '@questlog/schemas/topics/linkedEvents';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import type { FiledReport } from './storedReports.ts';

export interface Link {
  readonly eventId: string;
  readonly state: LinkState;
  readonly source: LinkSource;
}

/** Of a report, as one answer shows them. */
export interface ShownLinks {
  readonly links: readonly Link[];
  /** There are more of them than are shown. */
  readonly linksTruncated: boolean;
}

/** Looks up in ClickHouse to which reports each event is linked. They are sorted; an event without any is left out. */
export async function linkedReports(
  store: Store,
  projectId: string,
  eventIds: readonly string[],
): Promise<ReadonlyMap<string, readonly string[]>> {
  if (eventIds.length === 0) return new Map();
  const rows = await store.query<{ eventId: string; reportIds: string[] }>(
    `SELECT event_id AS eventId, arraySort(groupArray(toString(report_id))) AS reportIds FROM report_link_versions FINAL
     WHERE project_id = {projectId:UUID} AND event_id IN {eventIds:Array(UUID)} AND state = 'linked'
     GROUP BY event_id`,
    { projectId, eventIds },
  );
  return new Map(rows.map(({ eventId, reportIds }) => [eventId, reportIds]));
}

/** Links that one answer shows. */
const MAX_LINKS = 10_000;
/** A report this young also shows the stored events of its session: the linker may not have looked for them yet. */
const FRESH_FOR_MS = 60_000;

/**
 * The links of a report in the order of the events' ids, which is that of their time. What the report names is there
 * from its first moment on, and linked as soon as it is stored; a retracted report waits for nothing any more.
 */
export async function linksOfReport(store: Store, report: FiledReport, nowMs: number): Promise<ShownLinks> {
  const { filed, retractedAt } = report;
  const rows = await store.query<Link>(
    `SELECT event_id AS eventId, state, source FROM report_links
     WHERE project_id = {projectId:UUID} AND report_id = {reportId:UUID}
     ORDER BY toString(event_id) LIMIT {limit:UInt32}`,
    { projectId: filed.projectId, reportId: filed.reportId, limit: MAX_LINKS + 1 },
  );
  const links = new Map(pendingLinks(filed).map((link) => [link.eventId, link]));
  for (const link of rows) links.set(link.eventId, link);
  const waiting = [...links.values()].filter(({ state }) => state === 'pending');
  const stored = await storedEvents(store, report, {
    ids: retractedAt === null ? waiting.map(({ eventId }) => eventId) : [],
    ofSession: isFresh(filed, nowMs),
  });
  for (const eventId of stored) {
    const known = links.get(eventId);
    if (known === undefined) links.set(eventId, { eventId, state: 'linked', source: 'session' });
    else if (known.state === 'pending') links.set(eventId, { ...known, state: 'linked' });
  }
  const shown = [...links.values()]
    .map((link) => (retractedAt === null ? link : { ...link, state: 'retracted' as const }))
    .sort(byEventId)
    .slice(0, MAX_LINKS);
  return { links: shown, linksTruncated: links.size > shown.length };
}

/** The links of a report at the moment when it is filed. */
export function pendingLinks(filed: ReportLink): Link[] {
  const links = [...namedEventsOf(filed)].map(([eventId, source]) => {
    return { eventId, state: 'pending', source } as const;
  });
  return links.sort(byEventId);
}

export function isFresh({ receivedAt, sessionId }: ReportLink, nowMs: number): boolean {
  return sessionId !== null && nowMs - receivedAt < FRESH_FOR_MS;
}

/** A condition for a query: the event is of the report's session, in its window, and came before any retraction. */
export const OF_SESSION = `session_id = {sessionId:UUID}
  AND toUnixTimestamp64Micro(occurred_at) BETWEEN {fromMicros:Int64} AND {toMicros:Int64}
  AND toUnixTimestamp64Milli(received_at) <= {untilMs:Int64}`;

/** The parameters of `OF_SESSION`, and the ids of the report. */
export function reportParams({ filed, retractedAt }: FiledReport): Record<string, unknown> {
  const { tenantId, projectId, reportId, sessionId } = filed;
  const untilMs = retractedAt ?? Number.MAX_SAFE_INTEGER;
  return { tenantId, projectId, reportId, sessionId: sessionId ?? undefined, untilMs, ...windowOf(filed) };
}

/** The ids lead to the events by the primary key, which begins with the time inside them. */
const NAMED = `id_at IN (SELECT UUIDv7ToDateTime(arrayJoin({ids:Array(UUID)}), 'UTC')) AND id IN {ids:Array(UUID)}`;

/** Which of the ids are stored, and which events of its session the report has by its window; up to what is shown. */
async function storedEvents(
  store: Store,
  report: FiledReport,
  { ids, ofSession }: { ids: readonly string[]; ofSession: boolean },
): Promise<string[]> {
  const ofProject = 'tenant_id = {tenantId:UUID} AND project_id = {projectId:UUID}';
  const parts = [...(ids.length === 0 ? [] : [NAMED]), ...(ofSession ? [OF_SESSION] : [])];
  if (parts.length === 0) return [];
  const rows = await store.query<{ id: string }>(
    parts
      .map(
        (part) => `(SELECT DISTINCT id FROM events WHERE ${ofProject} AND ${part}
         ORDER BY toString(id) LIMIT {limit:UInt32})`,
      )
      .join(' UNION DISTINCT '),
    { ...reportParams(report), ids, limit: MAX_LINKS + 1 },
  );
  return rows.map(({ id }) => id);
}

function byEventId(a: Link, b: Link): number {
  return a.eventId < b.eventId ? -1 : 1;
}
