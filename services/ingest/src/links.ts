/** The links of events and bug reports, as ClickHouse has them. */
import type { Store } from '@questlog/runtime/store/store';
import { namedEventsOf } from '@questlog/schemas/reportWindow';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import type { AnsweredReport, Link } from './core/reportAnswer.ts';

/** Of each event that has any, the reports that it is linked to now, sorted. */
export async function linkedReports(
  store: Store,
  projectId: string,
  eventIds: readonly string[],
): Promise<ReadonlyMap<string, readonly string[]>> {
  if (eventIds.length === 0) return new Map();
  const rows = await store.query<{ event_id: string; report_ids: string[] }>(
    `SELECT event_id, arraySort(groupArray(toString(report_id))) AS report_ids FROM report_link_versions FINAL
     WHERE project_id = {projectId:UUID} AND event_id IN {eventIds:Array(UUID)} AND state = 'linked'
     GROUP BY event_id`,
    { projectId, eventIds },
  );
  return new Map(rows.map(({ event_id, report_ids }) => [event_id, report_ids]));
}

/** Links that one answer shows. */
const MAX_LINKS = 10_000;

/**
 * The links of a report in the order of the events' ids, which is that of their time. What the report names is there
 * from its first moment on; a retracted report waits for nothing any more.
 */
export async function linksOfReport(
  store: Store,
  filed: ReportLink,
  isRetracted: boolean,
): Promise<Pick<AnsweredReport, 'links' | 'linksTruncated'>> {
  const rows = await store.query<{ event_id: string; state: Link['state']; source: Link['source'] }>(
    `SELECT event_id, state, source FROM report_links
     WHERE project_id = {projectId:UUID} AND report_id = {reportId:UUID}
     ORDER BY toString(event_id) LIMIT {limit:UInt32}`,
    { projectId: filed.projectId, reportId: filed.reportId, limit: MAX_LINKS + 1 },
  );
  const links = new Map(pendingLinks(filed).map((link) => [link.eventId, link]));
  for (const { event_id, state, source } of rows) links.set(event_id, { eventId: event_id, state, source });
  const shown = [...links.values()]
    .map((link) => (isRetracted && isWaiting(link) ? { ...link, state: 'retracted' as const } : link))
    .sort((a, b) => (a.eventId < b.eventId ? -1 : 1))
    .slice(0, MAX_LINKS);
  return { links: shown, linksTruncated: links.size > shown.length };
}

/** As they are when the report is filed: inline ones first, then those that it names. */
export function pendingLinks(filed: ReportLink): Link[] {
  return [...namedEventsOf(filed)].map(([eventId, source]) => ({ eventId, state: 'pending', source }));
}

function isWaiting({ state }: Link): boolean {
  return state === 'pending' || state === 'unresolved';
}
