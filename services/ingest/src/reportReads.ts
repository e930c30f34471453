/** What may be read back of a bug report: itself with its links, and its events. */
import type { Principal } from '@questlog/runtime/directory/directory';
import type { Store } from '@questlog/runtime/store/store';
import { partitionOf } from '@questlog/schemas/partition';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { laneOf } from '@questlog/schemas/uuid';
import { eventPage } from './core/answer.ts';
import { type Link, reportObject } from './core/reportAnswer.ts';
import {
  answeredRow,
  EVENT_COLUMNS,
  IN_PAGE,
  type PageQuery,
  POSITION_COLUMNS,
  type PositionedRow,
  pageOf,
  pageParams,
  readPage,
} from './eventRows.ts';
import { linkedReports, linksOfReport } from './links.ts';
import type { LinksSettled } from './linksSettled.ts';
import { pathUuid } from './pathUuid.ts';
import type { Projection } from './projection.ts';
import { Rejected } from './rejected.ts';
import type { StoredReport } from './reportRows.ts';
import type { Reports } from './reports.ts';

export interface ReportReadDeps {
  readonly store: Store;
  readonly reports: Reports;
  /** Of the events topic. */
  readonly projection: Projection;
  /** Of the topic of reports. */
  readonly reportProjection: Projection;
  readonly linksSettled: LinksSettled;
  readonly partitions: number;
}

/** @throws Rejected `not_found` also for a report of another project; Unavailable while the projection lags. */
export async function readReport(
  deps: ReportReadDeps,
  principal: Principal,
  idText: string,
): Promise<Buffer> {
  const { filed, isRetracted } = await knownReport(deps, principal, pathUuid(idText));
  await settled(deps, filed);
  return reportObject({ filed, isRetracted, ...(await linksOfReport(deps.store, filed, isRetracted)) });
}

interface LinkedRow extends PositionedRow {
  readonly state: Link['state'];
  readonly source: Link['source'];
}

/** A page of the report's events by `occurredAt`; ties in the order of the log. */
export async function readReportEvents(
  deps: ReportReadDeps,
  principal: Principal,
  idText: string,
  query: PageQuery,
): Promise<Buffer> {
  const { tenant, project, revision } = principal;
  const page = readPage(query);
  const { filed } = await knownReport(deps, principal, pathUuid(idText));
  await Promise.all([deps.projection.caughtUp(partitionsOf(filed, deps.partitions)), settled(deps, filed)]);
  // The ids lead to the events by the primary key, which begins with the time inside them.
  const found = await deps.store.query<LinkedRow>(
    `WITH links AS (
       SELECT event_id, state, source FROM report_link_versions FINAL
       WHERE project_id = {projectId:UUID} AND report_id = {reportId:UUID} AND state IN ('linked', 'retracted')
     )
     SELECT ${EVENT_COLUMNS}, ${POSITION_COLUMNS}, links.state AS state, links.source AS source
     FROM events INNER JOIN links ON links.event_id = events.id
     WHERE tenant_id = {tenantId:UUID} AND project_id = {projectId:UUID}
       AND id_at IN (SELECT UUIDv7ToDateTime(event_id, 'UTC') FROM links) AND id IN (SELECT event_id FROM links)
       AND ${IN_PAGE}`,
    { tenantId: tenant.id, projectId: project.id, reportId: filed.reportId, ...pageParams(page) },
  );
  const { rows, next } = pageOf(found, page);
  const linked = await linkedReports(
    deps.store,
    project.id,
    rows.map(({ id }) => id),
  );
  const events = rows.map((row) => ({
    ...answeredRow(row, revision, linked.get(row.id) ?? []),
    link: { state: row.state, source: row.source },
  }));
  return eventPage(events, next);
}

/** @throws Rejected `not_found`. */
export async function knownReport(
  { reports }: Pick<ReportReadDeps, 'reports'>,
  { tenant, project }: Principal,
  id: string,
): Promise<StoredReport> {
  const report = await reports.find(tenant.id, project.id, id);
  if (report === undefined) throw new Rejected('not_found', `report ${id} does not exist in this project`);
  return report;
}

/** What the report names is there for certain, what was linked to it if the linker keeps up. */
async function settled(
  { reportProjection, linksSettled, partitions }: ReportReadDeps,
  filed: ReportLink,
): Promise<void> {
  await Promise.all([
    reportProjection.caughtUp([partitionOf(filed.tenantId, 0, partitions)]),
    linksSettled(partitionsOf(filed, partitions)),
  ]);
}

/** Where the report is decided and where its events are; other tenants' partitions make nobody wait. */
function partitionsOf(
  { tenantId, sessionLane, inlineEventIds, eventIds }: ReportLink,
  partitions: number,
): number[] {
  const lanes = [0, sessionLane ?? 0, ...inlineEventIds.map(laneOf), ...eventIds.map(laneOf)];
  return [...new Set(lanes.map((lane) => partitionOf(tenantId, lane, partitions)))];
}
