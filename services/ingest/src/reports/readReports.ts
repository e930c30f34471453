/** Handles requests that read or retract a bug report. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Principal } from '@questlog/runtime/directory/directory';
import type { PageQuery } from '@questlog/runtime/http/core/pageLimit';
import { pathUuid, Rejected } from '@questlog/runtime/http/rejected';
import type { Clock } from '@questlog/runtime/process/clock';
import type { KeyedMutex } from '@questlog/runtime/process/keyedMutex';
import { partitionOf, partitionsOf } from '@questlog/schemas/partition';
import { reportTimeOf } from '@questlog/schemas/reportWindow';
import { EVENT_COLUMNS } from '@questlog/schemas/tables/events';
import { CONTENT_COLUMNS, type ContentRow, contentOfRow } from '@questlog/schemas/tables/reports';
import type { ReportContent, ReportLink } from '@questlog/schemas/topics/reportLinks';
import { laneOf } from '@questlog/schemas/uuid';
import {
  isFresh,
  type Link,
  linkedReports,
  linksOfReport,
  reportParams,
  sessionEventsQuery,
} from '../entityCache/links.ts';
import type { ReadContext } from '../entityCache/readContext.ts';
import type { ReportCache } from '../entityCache/reportCache.ts';
import type { FiledReport } from '../entityCache/storedReports.ts';
import {
  answeredEvent,
  encodePage,
  IN_PAGE,
  POSITION_COLUMNS,
  type PositionedRow,
  pageOf,
  pageParams,
  queryPage,
  readPage,
} from '../events/pages.ts';
import { expiryOf } from '../expired/expiry.ts';
import { sessionSequence } from '../sessions/sessionSequence.ts';
import { reportObject, type ShownContent, withExpired } from './core/reportAnswer.ts';

/** @throws Rejected `not_found` if the project has no such report @throws Unavailable if ClickHouse lags behind the log */
export async function readReport(
  context: ReadContext,
  principal: Principal,
  idText: string,
): Promise<Buffer> {
  const report = await findReport(context, principal, pathUuid(idText));
  const { filed, retractedAt } = report;
  await waitForProjection(context, filed);
  const { tenantId, projectId, sessionId } = filed;
  const [links, content, sequence] = await Promise.all([
    linksOfReport(context.store, report, context.clock.now()),
    shownContent(context.store, filed),
    sessionId === null ? null : sessionSequence(context.store, { tenantId, projectId, sessionId }),
  ]);
  return reportObject({ filed, isRetracted: retractedAt !== null, ...links }, content, sequence);
}

async function contentOf(store: Store, { projectId, reportId }: ReportLink): Promise<ReportContent | null> {
  const [row] = await store.query<ContentRow>(
    `SELECT ${CONTENT_COLUMNS} FROM reports WHERE project_id = {projectId:UUID} AND id = {reportId:UUID}`,
    { projectId, reportId },
  );
  return row === undefined ? null : contentOfRow(row);
}

async function shownContent(store: Store, filed: ReportLink): Promise<ShownContent | null> {
  const content = await contentOf(store, filed);
  if (content === null || content.attachments.length === 0) return content;
  return withExpired(content, await expiryOf(store, filed.projectId));
}

interface LinkedRow extends PositionedRow {
  readonly link_source: Link['source'];
}

/** SQL query for the stored links of a report. A row with the state `pending` is no link: its event is not stored yet. */
const LINKS_IN_CLICKHOUSE = `
  SELECT event_id, toString(source) AS way, state != 'pending' AS is_link, 1 AS weight FROM report_link_versions FINAL
  WHERE project_id = {projectId:UUID} AND report_id = {reportId:UUID} AND state != 'unresolved'`;

/** SQL query for events in the report's session and time window, including events without a stored link. */
const LINKS_BY_SESSION = `
  SELECT id AS event_id, 'session' AS way, 0 AS is_link, 0 AS weight FROM (${sessionEventsQuery()})`;

/** Returns a page of a report's events, sorted by `occurredAt`. Events with equal times are sorted by log position. */
export async function readReportEvents(
  context: ReadContext,
  principal: Principal,
  idText: string,
  query: PageQuery,
): Promise<Buffer> {
  const { project, revision } = principal;
  const wanted = readPage(query, await context.cursorCiphers.for('page', project.id));
  const report = await findReport(context, principal, pathUuid(idText));
  const { filed, retractedAt } = report;
  await waitForProjection(context, filed);
  const bySession = isFresh(filed, context.clock.now()) ? `UNION ALL ${LINKS_BY_SESSION}` : '';
  // Filters by the time in the ids as well, because the primary key of the table starts with this time.
  const { page, rows: found } = await queryPage(wanted, (asked, settings) =>
    context.store.query<LinkedRow>(
      `WITH links AS (
       SELECT event_id, argMax(way, weight) AS link_source, max(is_link) AS is_made
       FROM (${LINKS_IN_CLICKHOUSE} ${bySession}) GROUP BY event_id
     )
     SELECT ${EVENT_COLUMNS}, ${POSITION_COLUMNS}, links.link_source AS link_source
     FROM events INNER JOIN links ON links.event_id = events.id
     WHERE tenant_id = {tenantId:UUID} AND project_id = {projectId:UUID}
       AND id_at IN (SELECT UUIDv7ToDateTime(event_id, 'UTC') FROM links) AND id IN (SELECT event_id FROM links)
       AND (links.is_made OR toUnixTimestamp64Milli(received_at) <= {untilMs:Int64}) AND ${IN_PAGE}`,
      { ...reportParams(report), ...pageParams(asked) },
      settings,
    ),
  );
  const { rows, next } = pageOf(found, page);
  const linked = await linkedReports(
    context.store,
    project.id,
    rows.map(({ id }) => id),
  );
  const own = retractedAt === null ? [filed.reportId] : [];
  const state = retractedAt === null ? 'linked' : 'retracted';
  const answered = (row: LinkedRow) => {
    const event = answeredEvent(row, revision);
    const reportIds = context.reports.reportsOf(project.id, event, [...own, ...(linked.get(row.id) ?? [])]);
    return { ...event, reportIds, link: { state, source: row.link_source } };
  };
  return await encodePage(rows, answered, next);
}

/** Returns the bug report. @throws Rejected `not_found` if the project has no report with this id */
export async function findReport(
  { reports }: Pick<ReadContext, 'reports'>,
  { tenant, project }: Principal,
  id: string,
): Promise<FiledReport> {
  const areThere = await reports.hasReports(tenant.id, project.id);
  const report = areThere ? await reports.find(tenant.id, project.id, id) : undefined;
  if (report === undefined)
    throw new Rejected('not_found', `report ${id} does not exist in this project, or has expired`);
  return report;
}

/** Waits until ClickHouse has the bug report and its events. Then waits at most one second for the links. */
async function waitForProjection(
  { projections, waitForLinks, partitions }: ReadContext,
  filed: ReportLink,
): Promise<void> {
  const { tenantId, sessionLane, inlineEventIds, eventIds } = filed;
  const lanes = [0, sessionLane ?? 0, ...[...inlineEventIds, ...eventIds].map(laneOf)];
  const concerned = partitionsOf(tenantId, lanes, partitions);
  await Promise.all([
    projections.events.caughtUp(concerned),
    projections.reports.caughtUp([partitionOf(tenantId, 0, partitions)]),
    waitForLinks(concerned),
  ]);
}

/**
 * Retracts a report that was filed with the caller's token.
 * @throws Rejected `not_found` if the project has no such report, and `forbidden` if another token filed the report
 */
export async function retractReport(
  deps: { reports: ReportCache; clock: Clock; perReport: KeyedMutex },
  principal: Principal,
  idText: string,
): Promise<void> {
  const id = pathUuid(idText);
  await deps.perReport.run(`${principal.project.id}/${id}`, async () => {
    const { filed, retractedAt } = await findReport(deps, principal, id);
    const filer = principal.firstTokenId ?? principal.tokenId;
    if (filer !== null && filed.filedBy !== filer) throw notFiledByToken(id);
    if (retractedAt !== null) return;
    await deps.reports.append({
      ...filed,
      kind: 'retracted',
      receivedAt: deps.clock.now(),
      // Copies the report's time. Otherwise, the retraction would get the current time.
      occurredAt: reportTimeOf(filed),
    });
  });
}

function notFiledByToken(id: string): Rejected {
  const detail = `report ${id} was not filed with this access token; only an operator can retract it`;
  return new Rejected('forbidden', detail);
}
