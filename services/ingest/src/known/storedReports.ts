/** Bug reports as ClickHouse has them (the view `reports`). */
import type { Store } from '@questlog/runtime/clickhouse/store';
import {
  REPORT_COLUMNS,
  type ReportRow,
  type StoredReport,
  storedReport,
} from '@questlog/schemas/tables/reports';
import type { WindowedReport } from './core/recentReports.ts';

/** A report as ingest needs it; where its record lies does not matter here. */
export type FiledReport = Omit<StoredReport, 'place'>;

export async function lookUpReports(
  store: Store,
  projectId: string,
  ids: readonly string[],
): Promise<FiledReport[]> {
  const rows = await store.query<ReportRow>(
    `SELECT ${REPORT_COLUMNS} FROM reports WHERE project_id = {projectId:UUID} AND id IN {ids:Array(UUID)}`,
    { projectId, ids },
  );
  return rows.map(storedReport);
}

/** Rows of one answer, which becomes one string in memory. */
const PAGE_ROWS = 10_000;

type WindowRow = Omit<
  ReportRow,
  'tenant_id' | 'session_lane' | 'inline_event_ids' | 'event_ids' | 'digest' | 'retracted_at_millis'
>;

/**
 * Reports of sessions that were not retracted, the latest first: those whose window may still be open. Without
 * the events that they name, which are up to 80 KB a report.
 */
export async function recentReports(
  store: Store,
  { sinceMs, limit }: { sinceMs: number; limit: number },
): Promise<WindowedReport[]> {
  const found: WindowedReport[] = [];
  let behind = { millis: Number.MAX_SAFE_INTEGER, name: '' };
  while (found.length < limit) {
    const page = Math.min(PAGE_ROWS, limit - found.length);
    const rows = await store.query<WindowRow>(
      `SELECT project_id, id, session_id, toUnixTimestamp64Micro(occurred_at) AS occurred_at_micros,
         toUnixTimestamp64Milli(received_at) AS received_at_millis, window_before_ms, window_after_ms
       FROM reports
       WHERE received_at > fromUnixTimestamp64Milli({sinceMs:Int64}) AND session_id IS NOT NULL AND retracted_at IS NULL
         AND (toUnixTimestamp64Milli(received_at), concat(toString(project_id), toString(id))) < ({millis:Int64}, {name:String})
       ORDER BY toUnixTimestamp64Milli(received_at) DESC, concat(toString(project_id), toString(id)) DESC
       LIMIT {page:UInt32}`,
      { sinceMs, ...behind, page },
    );
    for (const row of rows) found.push(windowedReport(row));
    const last = rows.at(-1);
    if (last === undefined || rows.length < page) break;
    behind = { millis: Number(last.received_at_millis), name: last.project_id + last.id };
  }
  return found;
}

export async function projectsWithReports(store: Store): Promise<string[]> {
  const rows = await store.query<{ project_id: string }>('SELECT DISTINCT project_id FROM report_versions');
  return rows.map((row) => row.project_id);
}

function windowedReport(row: WindowRow): WindowedReport {
  return {
    projectId: row.project_id,
    reportId: row.id,
    sessionId: row.session_id,
    receivedAt: Number(row.received_at_millis),
    occurredAt: BigInt(row.occurred_at_micros),
    windowBeforeMs: row.window_before_ms,
    windowAfterMs: row.window_after_ms,
  };
}
