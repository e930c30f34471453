/** Hides erased sessions and reports in the caches. All other code of ingest reads the caches through this module. */
import type { Directory } from '@questlog/runtime/directory/directory';
import { Rejected } from '@questlog/runtime/http/rejected';
import { Unavailable } from '@questlog/runtime/process/errors';
import type { IsVisible } from '@questlog/schemas/visibility';
import type { ReportCache } from './reportCache.ts';
import type { SessionCache } from './sessionCache.ts';

export function isVisibleIn({ projects, erased }: Pick<Directory, 'projects' | 'erased'>): IsVisible {
  return (entity) => {
    if (erased.isEmpty) return true;
    const { projectId, reportId } = entity;
    const tenantId = projects.get(projectId)?.tenantId;
    if (tenantId === undefined) return true;
    return reportId === undefined
      ? erased.erasureOf({ ...entity, tenantId }) === undefined
      : erased.isVisibleReport({ ...entity, tenantId, reportId });
  };
}

/** Wraps a session cache so that it hides erased sessions. Ingest must not acknowledge events of an erased session. */
export function visibleSessions(sessions: SessionCache, { erased }: Pick<Directory, 'erased'>): SessionCache {
  const canExist: SessionCache['canExist'] = (...session) => !erased.hasSession(...session);
  return {
    ...sessions,
    canExist,
    find: async (tenantId, projectId, ids) => {
      const remainingIds = erased.isEmpty ? ids : ids.filter((id) => canExist(tenantId, projectId, id));
      return await sessions.find(tenantId, projectId, remainingIds);
    },
    register: async (session, isGenerated = false) => {
      const { tenantId, projectId, sessionId } = session;
      if (!canExist(tenantId, projectId, sessionId))
        throw new Rejected('conflict', `session ${sessionId} was erased; a new session has another id`);
      if (!isGenerated && erased.isHiding(tenantId, projectId))
        await rejectUntilHidden(sessions, projectId, sessionId);
      return await sessions.register(session);
    },
  };
}

/** Wraps a report cache so that it hides erased reports. A late retry must not return an erased report. */
export function visibleReports(reports: ReportCache, { erased }: Pick<Directory, 'erased'>): ReportCache {
  return {
    ...reports,
    find: async (tenantId, projectId, id) => {
      const report = await reports.find(tenantId, projectId, id);
      return report !== undefined && erased.isVisibleReport(report.filed) ? report : undefined;
    },
    file: async (record, isGenerated = false) => {
      const { tenantId, projectId, reportId } = record;
      if (!erased.isVisibleReport(record))
        throw new Rejected('conflict', `report ${reportId} was erased; a new report has another id`);
      if (!isGenerated && erased.isHiding(tenantId, projectId))
        await rejectUntilHidden(reports, projectId, reportId);
      return await reports.file(record);
    },
  };
}

/** @throws Unavailable while ClickHouse still has a row of this id from before the erasure */
async function rejectUntilHidden(
  records: Pick<SessionCache, 'hasHidden'>,
  projectId: string,
  id: string,
): Promise<void> {
  if (!(await records.hasHidden(projectId, id))) return;
  throw new Unavailable(`${id} still has a row from before the erasure; try again`, { retryAfterS: 5 });
}
