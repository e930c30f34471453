/** A game's reads: events, also those of a session, and the quota. All come from ClickHouse, once it has caught up. */

import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Principal } from '@questlog/runtime/directory/directory';
import type { Clock } from '@questlog/runtime/process/clock';
import type { QuotaOutput } from '@questlog/schemas/http/quota';
import { partitionOf } from '@questlog/schemas/partition';
import { EVENT_COLUMNS, type EventRow } from '@questlog/schemas/tables/events';
import { laneOf } from '@questlog/schemas/uuid';
import type { PageQuery } from '../core/pageLimit.ts';
import { linkedReports } from '../known/links.ts';
import type { LinksSettled, Projection } from '../known/projection.ts';
import type { Reports } from '../known/reports.ts';
import type { KnownSession, Sessions } from '../known/sessions.ts';
import { pathUuid, Rejected } from '../rejected.ts';
import { eventObject, eventPage } from './core/answer.ts';
import {
  answeredRow,
  IN_PAGE,
  POSITION_COLUMNS,
  type PositionedRow,
  pageOf,
  pageParams,
  readPage,
} from './pages.ts';
import { monthOf } from './quotas.ts';

export interface ReadDeps {
  readonly store: Store;
  readonly sessions: Sessions;
  readonly reports: Reports;
  /** Of the events topic. */
  readonly projection: Projection;
  readonly linksSettled: LinksSettled;
  readonly clock: Clock;
  readonly partitions: number;
}

const REPORT_IDS_COLUMN = `(
    SELECT arraySort(groupArray(toString(report_id))) FROM report_link_versions FINAL
    WHERE project_id = {projectId:UUID} AND event_id = {id:UUID} AND state = 'linked'
  ) AS reportIds`;

/** The primary key leads to one granule: planning to read less of it, or on more threads, takes longer than reading it. */
const ONE_GRANULE = {
  optimize_move_to_prewhere: 0,
  use_skip_indexes: 0,
  max_threads: 1,
  local_filesystem_read_method: 'pread',
};

/** @throws Rejected `not_found` also for an event of another project; Unavailable while the projection lags. */
export async function readEvent(deps: ReadDeps, principal: Principal, idText: string): Promise<Buffer> {
  const id = pathUuid(idText);
  const { tenant, project, revision } = principal;
  const partition = partitionOf(tenant.id, laneOf(id), deps.partitions);
  const hasReports = await settled(deps, principal, partition);
  // No column more than is answered, no links of a project without reports, and no choice of a PREWHERE left to the
  // planner: a third of the time of a read.
  const columns = hasReports ? `${EVENT_COLUMNS}, ${REPORT_IDS_COLUMN}` : EVENT_COLUMNS;
  const [row] = await deps.store.query<EventRow & { reportIds?: readonly string[] }>(
    `SELECT ${columns} FROM events
     PREWHERE tenant_id = {tenantId:UUID} AND project_id = {projectId:UUID}
       AND id_at = UUIDv7ToDateTime({id:UUID}, 'UTC') AND id = {id:UUID} LIMIT 1`,
    { tenantId: tenant.id, projectId: project.id, id },
    ONE_GRANULE,
  );
  if (row === undefined) throw new Rejected('not_found', `event ${id} does not exist in this project`);
  const event = answeredRow(row, revision);
  const reportIds = hasReports ? deps.reports.reportsOf(project.id, event, row.reportIds) : [];
  return eventObject({ ...event, reportIds });
}

/** A page of the session's events by `occurredAt`; ties in the order of the log. */
export async function readSessionEvents(
  deps: ReadDeps,
  principal: Principal,
  idText: string,
  query: PageQuery,
): Promise<Buffer> {
  const { tenant, project, revision } = principal;
  const page = readPage(query);
  const session = await knownSession(deps, principal, pathUuid(idText));
  const partition = partitionOf(tenant.id, session.lane, deps.partitions);
  const hasReports = await settled(deps, principal, partition);
  const found = await deps.store.query<PositionedRow>(
    `SELECT ${EVENT_COLUMNS}, ${POSITION_COLUMNS} FROM events
     WHERE tenant_id = {tenantId:UUID} AND project_id = {projectId:UUID} AND session_id = {sessionId:UUID}
       AND ${IN_PAGE}`,
    { tenantId: tenant.id, projectId: project.id, sessionId: session.sessionId, ...pageParams(page) },
  );
  const { rows, next } = pageOf(found, page);
  const ids = hasReports ? rows.map(({ id }) => id) : [];
  const linked = await linkedReports(deps.store, project.id, ids);
  return eventPage(
    rows.map((row) => {
      const event = answeredRow(row, revision);
      return { ...event, reportIds: deps.reports.reportsOf(project.id, event, linked.get(row.id)) };
    }),
    next,
  );
}

export async function readQuota(deps: ReadDeps, { tenant }: Principal): Promise<QuotaOutput> {
  const month = monthOf(deps.clock.now());
  await deps.projection.caughtUp('all');
  const [row] = await deps.store.query<{ total: string }>(
    `SELECT sum(used) AS total FROM quota_usage
     WHERE tenant_id = {tenantId:UUID} AND month = toDate({day:String})`,
    { tenantId: tenant.id, day: `${month}-01` },
  );
  return { month, used: Number(row?.total ?? 0), softQuota: tenant.monthlySoftQuota };
}

/** Waits for the events of the partition, and for their links where the project has a report at all; answers whether it has. */
async function settled(
  { projection, linksSettled, reports, partitions }: ReadDeps,
  { tenant, project }: Principal,
  partition: number,
): Promise<boolean> {
  const links = async (): Promise<boolean> => {
    const hasReports = await reports.areThere(tenant.id, project.id);
    if (hasReports) await linksSettled([partition, partitionOf(tenant.id, 0, partitions)]);
    return hasReports;
  };
  const [hasReports] = await Promise.all([links(), projection.caughtUp([partition])]);
  return hasReports;
}

async function knownSession(
  deps: ReadDeps,
  { tenant, project }: Principal,
  id: string,
): Promise<KnownSession> {
  const session = (await deps.sessions.find(tenant.id, project.id, [id])).get(id);
  if (session === undefined)
    throw new Rejected('unknown_session', `session ${id} does not exist in this project`);
  return session;
}
