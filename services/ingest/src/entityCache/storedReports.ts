/** Queries ClickHouse for bug reports. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import {
  REPORT_COLUMNS,
  type ReportRow,
  type StoredReport,
  storedReport,
} from '@questlog/schemas/tables/reports';
import type { WindowedReport } from './core/openReports.ts';

export type FiledReport = Omit<StoredReport, 'position'>;

export async function lookUpReports(
  store: Pick<Store, 'query'>,
  projectId: string,
  ids: readonly string[],
): Promise<FiledReport[]> {
  const rows = await store.query<ReportRow>(
    `SELECT ${REPORT_COLUMNS} FROM report_versions FINAL WHERE project_id = {projectId:UUID} AND id IN {ids:Array(UUID)}`,
    { projectId, ids },
  );
  return rows.map(storedReport);
}

/** Maximum rows of one query, because the ClickHouse client keeps a response as one string of limited length. */
const PAGE_ROWS = 10_000;

interface WindowRow extends Omit<WindowedReport, 'occurredAt' | 'receivedAt'> {
  readonly occurredAt: string;
  readonly receivedAt: string;
}

/**
 * Returns the reports whose time window may still be open, newest first. Omits their event ids, which can take 80 KB per
 * report.
 */
export async function storedOpenReports(
  store: Store,
  { sinceMs, limit }: { sinceMs: number; limit: number },
): Promise<WindowedReport[]> {
  const found: WindowedReport[] = [];
  let after = { millis: Number.MAX_SAFE_INTEGER, name: '' };
  while (found.length < limit) {
    const pageRows = Math.min(PAGE_ROWS, limit - found.length);
    const rows = await store.query<WindowRow>(
      `SELECT project_id AS projectId, id AS reportId, session_id AS sessionId,
         toUnixTimestamp64Micro(occurred_at) AS occurredAt, toUnixTimestamp64Milli(received_at) AS receivedAt,
         window_before_ms AS windowBeforeMs, window_after_ms AS windowAfterMs,
         max_session_links AS maxSessionLinks
       FROM report_versions FINAL
       WHERE received_at > fromUnixTimestamp64Milli({sinceMs:Int64}) AND session_id IS NOT NULL AND retracted_at IS NULL
         AND (toUnixTimestamp64Milli(received_at), concat(toString(project_id), toString(id))) < ({millis:Int64}, {name:String})
       ORDER BY toUnixTimestamp64Milli(received_at) DESC, concat(toString(project_id), toString(id)) DESC
       LIMIT {page:UInt32}`,
      { sinceMs, ...after, page: pageRows },
    );
    for (const row of rows) {
      found.push({ ...row, occurredAt: BigInt(row.occurredAt), receivedAt: Number(row.receivedAt) });
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < pageRows) break;
    after = { millis: Number(last.receivedAt), name: last.projectId + last.reportId };
  }
  return found;
}

export async function projectsWithReports(store: Store): Promise<string[]> {
  const rows = await store.query<{ id: string }>('SELECT DISTINCT project_id AS id FROM report_versions');
  return rows.map(({ id }) => id);
}
