/** Reads reports from ClickHouse, with the log positions of their records. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import { REPORT_COLUMNS, type ReportRow, storedReport } from '@questlog/schemas/tables/reports';
import type { LateSession } from '@questlog/schemas/topics/linkerState';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { keyOf } from '../core/decision.ts';
import type { ProjectedReport } from '../core/jobs.ts';
import type { SessionFilter } from '../core/sessionFilter.ts';

export async function projectedReports(
  store: Store,
  requested: readonly { readonly record: ReportLink }[],
): Promise<Map<string, ProjectedReport>> {
  if (requested.length === 0) return new Map();
  const keys = new Set(requested.map(({ record }) => keyOf(record)));
  const rows = await store.query<ReportRow>(
    `SELECT ${REPORT_COLUMNS} FROM report_versions FINAL
     WHERE project_id IN {projects:Array(UUID)} AND id IN {ids:Array(UUID)}`,
    {
      projects: [...new Set(requested.map(({ record }) => record.projectId))],
      ids: [...new Set(requested.map(({ record }) => record.reportId))],
    },
  );
  return await withLanes(
    store,
    rows.filter((row) => keys.has(keyOf(row))),
  );
}

/** Returns the sessions' reports whose time windows overlap the times of the late events. Omits retracted reports. */
export async function reportsOfSessions(
  store: Store,
  sessions: readonly LateSession[],
): Promise<Map<string, ProjectedReport>> {
  const rows = await store.query<ReportRow & { fromMicros: string; toMicros: string }>(
    `SELECT ${REPORT_COLUMNS}, from_micros AS fromMicros, to_micros AS toMicros FROM report_versions FINAL
     WHERE project_id IN {projects:Array(UUID)} AND session_id IN {sessions:Array(UUID)} AND retracted_at IS NULL`,
    {
      projects: [...new Set(sessions.map(({ projectId }) => projectId))],
      sessions: [...new Set(sessions.map(({ sessionId }) => sessionId))],
    },
  );
  const bySession = new Map(sessions.map((late) => [`${late.projectId}/${late.sessionId}`, late]));
  return await withLanes(
    store,
    rows.filter((row) => {
      const late = bySession.get(`${row.projectId}/${row.sessionId}`);
      if (late === undefined) return false;
      return BigInt(row.fromMicros) <= late.toMicros && BigInt(row.toMicros) >= late.fromMicros;
    }),
  );
}

const MAX_SESSIONS_PER_QUERY = 50_000;

export async function addSessionsWithReports(store: Store, filter: SessionFilter): Promise<boolean> {
  const [count] = await store.query<{ sessions: string }>(
    'SELECT uniq(session_id) AS sessions FROM report_versions',
  );
  const sessions = Number(count?.sessions ?? 0);
  if (sessions > filter.maxSessions) return false;
  const slices = Math.ceil(sessions / MAX_SESSIONS_PER_QUERY);
  for (let slice = 0; slice < slices; slice++) {
    const rows = await store.query<{ id: string }>(
      `SELECT DISTINCT session_id AS id FROM report_versions
       WHERE session_id IS NOT NULL AND cityHash64(session_id) % {slices:UInt8} = {slice:UInt8}`,
      { slices, slice },
    );
    for (const { id } of rows) filter.add(id);
  }
  return true;
}

async function withLanes(store: Store, rows: readonly ReportRow[]): Promise<Map<string, ProjectedReport>> {
  const unknown = rows.filter(({ sessionId, sessionLane }) => sessionId !== null && sessionLane === null);
  const lanes = new Map<string, number>();
  if (unknown.length > 0) {
    const sessions = await store.query<{ name: string; lane: number }>(
      `SELECT concat(toString(project_id), '/', toString(id)) AS name, lane FROM sessions
       WHERE project_id IN {projects:Array(UUID)} AND id IN {ids:Array(UUID)}
       ORDER BY log_offset LIMIT 1 BY project_id, id`,
      {
        projects: [...new Set(unknown.map(({ projectId }) => projectId))],
        ids: [...new Set(unknown.map(({ sessionId }) => sessionId))],
      },
    );
    for (const { name, lane } of sessions) lanes.set(name, lane);
  }
  return new Map(
    rows.map((row) => {
      const { filed, retractedAt, position } = storedReport(row);
      const sessionLane = filed.sessionLane ?? lanes.get(`${filed.projectId}/${filed.sessionId}`) ?? null;
      const isRetracted = retractedAt !== null;
      return [keyOf(filed), { record: { ...filed, sessionLane }, ...position, isRetracted }];
    }),
  );
}
