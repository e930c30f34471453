/** Serves POST /admin/links/retry. The linker searches again for late events whose ids are listed in reports. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { LinkRetryInput } from '@questlog/schemas/http/report';
import { REPORT_COLUMNS, type ReportRow, storedReport } from '@questlog/schemas/tables/reports';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { canonicalUuid } from '@questlog/schemas/uuid';
import type { AppendReport } from './appendReport.ts';

/** Maximum number of reports per request, because each report causes a ClickHouse lookup of the linker. */
const MAX_REPORTS = 1_000;
const APPENDS_PER_BATCH = 50;

export async function retryLinks(
  { store, appendReport }: { store: Store; appendReport: AppendReport },
  input: LinkRetryInput,
): Promise<{ reports: number; links: number }> {
  const filter = [
    input.tenantId === undefined ? '' : 'AND tenant_id = {tenantId:UUID}',
    input.projectId === undefined ? '' : 'AND project_id = {projectId:UUID}',
    input.reportId === undefined ? '' : 'AND report_id = {reportId:UUID}',
  ].join(' ');
  // Starts with the reports whose links failed first (`given_up_at`). A failed retry renews this time, so repeated requests
  // reach all reports.
  const rows = await store.query<ReportRow & { unresolved: string }>(
    `WITH waiting AS (
       SELECT project_id AS link_project, report_id AS link_report, count() AS unresolved,
         max(changed_at) AS given_up_at
       FROM report_link_versions FINAL WHERE state = 'unresolved' ${filter}
       GROUP BY project_id, report_id
     )
     SELECT ${REPORT_COLUMNS}, unresolved
     FROM report_versions FINAL INNER JOIN waiting ON link_project = project_id AND link_report = id
     WHERE retracted_at IS NULL AND id IN (SELECT link_report FROM waiting)
     ORDER BY given_up_at, received_at LIMIT ${MAX_REPORTS}`,
    {
      tenantId: canonicalUuid(input.tenantId ?? ''),
      projectId: canonicalUuid(input.projectId ?? ''),
      reportId: canonicalUuid(input.reportId ?? ''),
    },
  );
  for (let at = 0; at < rows.length; at += APPENDS_PER_BATCH) {
    await Promise.all(rows.slice(at, at + APPENDS_PER_BATCH).map((row) => appendReport(retryOf(row))));
  }
  return { reports: rows.length, links: rows.reduce((sum, { unresolved }) => sum + Number(unresolved), 0) };
}

function retryOf(row: ReportRow): ReportLink {
  return { ...storedReport(row).filed, kind: 'retried' };
}
