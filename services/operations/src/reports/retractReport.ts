/** Serves DELETE /admin/projects/{id}/reports/{reportId}: an operator retracts a report, even if a client filed it. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Directory } from '@questlog/runtime/directory/directory';
import { pathUuid, Rejected } from '@questlog/runtime/http/rejected';
import type { Log } from '@questlog/runtime/log/log';
import type { ProjectionProgress } from '@questlog/runtime/log/projection/projection';
import type { Clock } from '@questlog/runtime/process/clock';
import { partitionOf } from '@questlog/schemas/partition';
import { reportTimeOf } from '@questlog/schemas/reportWindow';
import { REPORT_COLUMNS, type ReportRow, storedReport } from '@questlog/schemas/tables/reports';
import { TOPICS } from '@questlog/schemas/topics/topics';
import type { VisibleData } from '@questlog/schemas/visibility';
import type { AppendReport } from './appendReport.ts';

export interface RetractDeps {
  readonly log: Log;
  readonly store: Store;
  readonly directory: { readonly current: Directory };
  readonly visible: VisibleData;
  readonly clock: Clock;
  readonly reportProjection: ProjectionProgress;
  readonly appendReport: AppendReport;
}

/**
 * @throws Rejected `not_found` if the project has no such report
 * @throws Unavailable if the projector is behind the log
 */
export async function retractReport(
  { log, store, directory, visible, clock, reportProjection, appendReport }: RetractDeps,
  projectIdText: string,
  reportIdText: string,
): Promise<void> {
  const [projectId, reportId] = [pathUuid(projectIdText), pathUuid(reportIdText)];
  const project = directory.current.projects.get(projectId);
  if (project === undefined) throw new Rejected('not_found', `there is no project ${projectId}`);
  const partitions = await log.partitionCount(TOPICS.reportLinks);
  await reportProjection.caughtUp([partitionOf(project.tenantId, 0, partitions)]);
  const [row] = await store.query<ReportRow>(
    `SELECT ${REPORT_COLUMNS} FROM report_versions FINAL WHERE project_id = {projectId:UUID} AND id = {reportId:UUID}`,
    { projectId, reportId },
  );
  const report = row && storedReport(row);
  if (report === undefined || !visible.cached.isVisibleEntity(report.filed))
    throw new Rejected('not_found', `report ${reportId} does not exist in this project, or has expired`);
  if (report.retractedAt !== null) return;
  await appendReport({
    ...report.filed,
    kind: 'retracted',
    receivedAt: clock.now(),
    // Copies the report's time. Otherwise, the retraction would get the current time.
    occurredAt: reportTimeOf(report.filed),
  });
}
