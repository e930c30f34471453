/** Reads the links between events and bug reports. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import { namedEventsOf, windowOf } from '@questlog/schemas/reportWindow';
import type { LinkSource, LinkState } from '@questlog/schemas/topics/linkedEvents';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { expiryOf, isMadeBefore } from '../expired/expiry.ts';
import type { FiledReport } from './storedReports.ts';

export interface Link {
  readonly eventId: string;
  readonly state: LinkState;
  readonly source: LinkSource;
}

/** Link between an event and a report in a response. The state is `expired` if retention has removed the event or the link. */
export type ShownLink = Omit<Link, 'state'> & { readonly state: LinkState | 'expired' };

export interface ShownLinks {
  readonly links: readonly ShownLink[];
  readonly linksTruncated: boolean;
  /** True if the session has more events in the report's time window than can be linked to the report. */
  readonly truncated: boolean;
}

/** Returns the sorted ids of the linked bug reports for each event id. An event without links has no entry. */
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

const MAX_LINKS = 10_000;
const DAY_MS = 24 * 60 * 60 * 1000;
/** While a report is younger than this, responses also contain events of its session that the linker has not linked yet. */
const FRESH_FOR_MS = 60_000;

/** Returns the links of a report. A link to a listed event id is `pending` until ClickHouse has the event. */
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
  const pending = [...links.values()].filter(({ state }) => state === 'pending');
  const stored = await storedEvents(store, report, {
    ids: retractedAt === null ? pending.map(({ eventId }) => eventId) : [],
    ofSession: isFresh(filed, nowMs),
  });
  for (const eventId of stored) {
    const existing = links.get(eventId);
    if (existing === undefined) links.set(eventId, { eventId, state: 'linked', source: 'session' });
    else if (existing.state === 'pending') links.set(eventId, { ...existing, state: 'linked' });
  }
  const expired = await expiredOf(store, filed, [...links.values()], { rows, nowMs });
  const shown = [...links.values()]
    .map((link) => (retractedAt === null ? link : { ...link, state: 'retracted' as const }))
    .map((link): ShownLink => (expired.has(link.eventId) ? { ...link, state: 'expired' } : link))
    .sort(byEventId)
    .slice(0, MAX_LINKS);
  return {
    links: shown,
    linksTruncated: links.size > shown.length,
    truncated: await isTruncated(store, report, links.size),
  };
}

/**
 * Returns the event ids of expired links. Ignores links that are younger than one day, because the minimum retention is one
 * day.
 */
async function expiredOf(
  store: Store,
  { projectId, receivedAt }: ReportLink,
  links: readonly Link[],
  { rows, nowMs }: { rows: readonly Link[]; nowMs: number },
): Promise<ReadonlySet<string>> {
  const storedIds = new Set(rows.map(({ eventId }) => eventId));
  const isExpired = ({ eventId }: Link, events: number, ofLinks: number): boolean =>
    isMadeBefore(eventId, events) || (receivedAt < ofLinks && !storedIds.has(eventId));
  const old = links.filter(
    (link) =>
      (link.state === 'pending' || link.state === 'unresolved') &&
      isExpired(link, nowMs - DAY_MS, nowMs - DAY_MS),
  );
  if (old.length === 0) return new Set();
  const expiry = await expiryOf(store, projectId);
  return new Set(
    old.filter((link) => isExpired(link, expiry.events, expiry.links)).map(({ eventId }) => eventId),
  );
}

async function isTruncated(store: Store, report: FiledReport, links: number): Promise<boolean> {
  const { sessionId, maxSessionLinks } = report.filed;
  if (sessionId === null || links < Math.min(maxSessionLinks, MAX_LINKS)) return false;
  const [row] = await store.query<{ events: string }>(
    `SELECT count() AS events FROM (${sessionEventsQuery('{beyond:UInt32}')})`,
    { ...reportParams(report), beyond: maxSessionLinks + 1 },
  );
  return Number(row?.events ?? 0) > maxSessionLinks;
}

export function pendingLinks(filed: ReportLink): Link[] {
  const links = [...namedEventsOf(filed)].map(([eventId, source]) => {
    return { eventId, state: 'pending', source } as const;
  });
  return links.sort(byEventId);
}

export function isFresh({ receivedAt, sessionId }: ReportLink, nowMs: number): boolean {
  return sessionId !== null && nowMs - receivedAt < FRESH_FOR_MS;
}

/** SQL condition for events in a report's session and time window. Excludes events that arrived after the retraction. */
const IN_SESSION_WINDOW = `session_id = {sessionId:UUID}
  AND toUnixTimestamp64Micro(occurred_at) BETWEEN {fromMicros:Int64} AND {toMicros:Int64}
  AND toUnixTimestamp64Milli(received_at) <= {untilMs:Int64}`;

/** Returns the SQL query for a report's session events. Like the linker, it selects the first `limit` events of the log. */
export function sessionEventsQuery(limit = '{maxSessionLinks:UInt32}'): string {
  return `SELECT id FROM events
     WHERE tenant_id = {tenantId:UUID} AND project_id = {projectId:UUID} AND ${IN_SESSION_WINDOW} AND id NOT IN {named:Array(UUID)}
     ORDER BY log_partition, log_offset, log_index LIMIT 1 BY id LIMIT ${limit}`;
}

export function reportParams({ filed, retractedAt }: FiledReport): Record<string, unknown> {
  const { tenantId, projectId, reportId, sessionId, maxSessionLinks } = filed;
  const namedIds = [...namedEventsOf(filed).keys()];
  const untilMs = retractedAt ?? Number.MAX_SAFE_INTEGER;
  const ids = { tenantId, projectId, reportId, sessionId: sessionId ?? undefined };
  return { ...ids, untilMs, ...windowOf(filed), maxSessionLinks, named: namedIds };
}

/** SQL condition for event ids. Also compares the time in the id, because the table's primary key starts with this time. */
const HAS_ID = `id_at IN (SELECT UUIDv7ToDateTime(arrayJoin({ids:Array(UUID)}), 'UTC')) AND id IN {ids:Array(UUID)}`;

async function storedEvents(
  store: Store,
  report: FiledReport,
  { ids, ofSession }: { ids: readonly string[]; ofSession: boolean },
): Promise<string[]> {
  const namedIds = `tenant_id = {tenantId:UUID} AND project_id = {projectId:UUID} AND ${HAS_ID}`;
  const conditions = [
    ...(ids.length === 0 ? [] : [namedIds]),
    // Repeats the conditions of the subquery. With a filter by `id` alone, ClickHouse would read the whole table.
    ...(ofSession
      ? [
          `id IN (${sessionEventsQuery()}) AND tenant_id = {tenantId:UUID} AND project_id = {projectId:UUID} AND ${IN_SESSION_WINDOW}`,
        ]
      : []),
  ];
  if (conditions.length === 0) return [];
  const rows = await store.query<{ id: string }>(
    conditions
      .map(
        (condition) => `(SELECT DISTINCT id FROM events WHERE ${condition}
         ORDER BY toString(id) LIMIT {limit:UInt32})`,
      )
      .join(' UNION DISTINCT '),
    { ...reportParams(report), ids, limit: MAX_LINKS + 1 },
  );
  return rows.map(({ id }) => id);
}

function byEventId(a: ShownLink, b: ShownLink): number {
  return a.eventId < b.eventId ? -1 : 1;
}
