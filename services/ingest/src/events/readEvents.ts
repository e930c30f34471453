/** A game's reads: events, also those of a session, and the quota. All come from ClickHouse, once it has caught up. */

import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Principal } from '@questlog/runtime/directory/directory';
import type { Clock } from '@questlog/runtime/process/clock';
import type { QuotaOutput } from '@questlog/schemas/http/quota';
import { partitionsOf } from '@questlog/schemas/partition';
import { EVENT_COLUMNS, type EventRow } from '@questlog/schemas/tables/events';
import { laneOf, millisOf } from '@questlog/schemas/uuid';
import { timeFilter, uuidFilter, whereGiven } from '../core/listFilters.ts';
import { inNewestFirst, newestFirstOf, newestFirstParams, readNewestFirst } from '../core/newestFirst.ts';
import type { PageQuery } from '../core/pageLimit.ts';
import type { KnownSession } from '../known/core/packedSessions.ts';
import { linkedReports } from '../known/links.ts';
import type { LinksSettled, Projection } from '../known/projection.ts';
import type { Reports } from '../known/reports.ts';
import type { Sessions } from '../known/sessions.ts';
import type { Seals } from '../places/seals.ts';
import { pathUuid, Rejected } from '../rejected.ts';
import { type AnsweredEvent, eventObject } from './core/answer.ts';
import {
  answeredRow,
  askPage,
  IN_PAGE,
  POSITION_COLUMNS,
  type PositionedRow,
  pageInTurns,
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
  readonly seals: Seals;
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
  const hasReports = await settled(deps, principal, [laneOf(id)]);
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
  if (row === undefined)
    throw new Rejected('not_found', `event ${id} does not exist in this project, or has expired`);
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
  const { tenant, project } = principal;
  const wanted = readPage(query, await deps.seals.of('page', project.id));
  const session = await knownSession(deps, principal, pathUuid(idText));
  const hasReports = await settled(deps, principal, [session.lane]);
  const { page, found } = await askPage(wanted, (asked, settings) =>
    deps.store.query<PositionedRow>(
      `SELECT ${EVENT_COLUMNS}, ${POSITION_COLUMNS} FROM events
       WHERE tenant_id = {tenantId:UUID} AND project_id = {projectId:UUID} AND session_id = {sessionId:UUID}
         AND ${IN_PAGE}`,
      { tenantId: tenant.id, projectId: project.id, sessionId: session.sessionId, ...pageParams(asked) },
      settings,
    ),
  );
  const { rows, next } = pageOf(found, page);
  return await answeredPage(deps, principal, { rows, next, hasReports });
}

/** As the query has them; undefined where it has none. */
export interface EventQuery extends PageQuery, Partial<Record<keyof typeof CONDITIONS, string | undefined>> {}

const CONDITIONS = {
  sessionId: 'session_id = {sessionId:UUID}',
  eventType: 'event_type = {eventType:String}',
  since: 'occurred_at >= fromUnixTimestamp64Micro({since:Int64})',
  until: 'occurred_at < fromUnixTimestamp64Micro({until:Int64})',
};

/**
 * A page of the project's events, the newest first by the time inside their ids: that is how the table is sorted, so
 * that a page costs the same wherever it begins. By `occurredAt` each would look at all of the project's events.
 */
export async function listEvents(deps: ReadDeps, principal: Principal, query: EventQuery): Promise<Buffer> {
  const { tenant, project } = principal;
  const wanted = readNewestFirst(query);
  const filters = {
    sessionId: uuidFilter('sessionId', query.sessionId),
    eventType: query.eventType,
    since: timeFilter('since', query.since),
    until: timeFilter('until', query.until),
  };
  const lanes = await lanesOf(deps, principal, filters.sessionId);
  const hasReports = await settled(deps, principal, lanes);
  const { page, found } = await askPage(wanted, (asked, settings) =>
    deps.store.query<EventRow>(
      `SELECT ${EVENT_COLUMNS} FROM events
       WHERE tenant_id = {tenantId:UUID} AND project_id = {projectId:UUID} ${whereGiven(filters, CONDITIONS)}
         AND ${inNewestFirst('id_at')}`,
      { tenantId: tenant.id, projectId: project.id, ...filters, ...newestFirstParams(asked) },
      settings,
    ),
  );
  const { rows, next } = newestFirstOf(found, page, ({ id }) => ({ id, millis: String(millisOf(id)) }));
  return await answeredPage(deps, principal, { rows, next, hasReports });
}

/**
 * Where the events of a list may lie: in the lane of its session, or in those that the tenant is spread over. A session
 * from before the spread was made smaller may lie in another one, whose latest events nobody waits for then.
 */
async function lanesOf(
  { sessions }: ReadDeps,
  { tenant, project }: Principal,
  sessionId: string | undefined,
): Promise<number[]> {
  if (sessionId === undefined) return Array.from({ length: tenant.spread }, (_, lane) => lane);
  const session = (await sessions.find(tenant.id, project.id, [sessionId])).get(sessionId);
  return session === undefined ? [] : [session.lane];
}

async function answeredPage(
  { store, reports }: ReadDeps,
  { project, revision }: Principal,
  of: { readonly rows: readonly EventRow[]; readonly next: string | null; readonly hasReports: boolean },
): Promise<Buffer> {
  const ids = of.hasReports ? of.rows.map(({ id }) => id) : [];
  const linked = await linkedReports(store, project.id, ids);
  const answered = (row: EventRow): AnsweredEvent => {
    const event = answeredRow(row, revision);
    return { ...event, reportIds: reports.reportsOf(project.id, event, linked.get(row.id)) };
  };
  return await pageInTurns(of.rows, answered, of.next);
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

/** Waits for the events of the lanes, and for their links where the project has a report at all; answers whether it has. */
async function settled(
  { projection, linksSettled, reports, partitions }: ReadDeps,
  { tenant, project }: Principal,
  lanes: readonly number[],
): Promise<boolean> {
  const those = (of: readonly number[]): number[] => partitionsOf(tenant.id, of, partitions);
  const links = async (): Promise<boolean> => {
    const hasReports = await reports.areThere(tenant.id, project.id);
    if (hasReports) await linksSettled(those([...lanes, 0]));
    return hasReports;
  };
  const [hasReports] = await Promise.all([links(), projection.caughtUp(those(lanes))]);
  return hasReports;
}

async function knownSession(
  deps: ReadDeps,
  { tenant, project }: Principal,
  id: string,
): Promise<KnownSession> {
  const session = (await deps.sessions.find(tenant.id, project.id, [id])).get(id);
  if (session === undefined)
    throw new Rejected('unknown_session', `session ${id} does not exist in this project, or has expired`);
  return session;
}
