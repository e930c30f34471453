/** Opens ingest's caches of sessions and reports, and hides erased sessions and reports. */

import { warnIfRestored, watchRestoredTable } from '@questlog/runtime/clickhouse/restored/restoredTable';
import type { Directory } from '@questlog/runtime/directory/directory';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { Projections } from '@questlog/runtime/log/projection/projection';
import type { TruncationParticipant } from '@questlog/runtime/log/truncation/participants';
import { steadyClock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { PROJECTED } from '@questlog/schemas/tables/projected';
import type { IsVisible } from '@questlog/schemas/visibility';
import type { IngestContext } from '../context.ts';
import { openReportCache, type ReportCache } from './reportCache.ts';
import { openSessionCache, type SessionCache } from './sessionCache.ts';

/** Opens the caches, and adds a health warning if tables that were restored from a backup lack rows. */
export async function openCaches(
  context: IngestContext,
  projections: Projections,
  truncations: TruncationParticipant,
): Promise<{ sessions: SessionCache; reports: ReportCache }> {
  const { log, store, directory, health, lifecycle, metrics } = context;
  const { current } = directory;
  const sourceOf = (topic: 'sessions' | 'reports') => ({
    ...{ ...context, isVisible: isVisibleIn(current), projection: projections[topic] },
    participants: [truncations],
    onReappended: (reappended: string, records: number) =>
      metrics.appendedAgain.inc({ topic: reappended }, records),
    table: watchRestoredTable({ log, store, clock: steadyClock }, PROJECTED[topic]),
  });
  const sessions = await openSessionCache(sourceOf('sessions'));
  lifecycle.onStop('sessions', () => sessions.close());
  const reports = await openReportCache(sourceOf('reports'));
  lifecycle.onStop('reports', () => reports.close());
  warnIfRestored(health, [sessions, reports]);
  return {
    sessions: visibleSessions(sessions, directory),
    reports: visibleReports(reports, directory),
  };
}

export function isVisibleIn({ projects, erased }: Pick<Directory, 'projects' | 'erased'>): IsVisible {
  return (entity) => {
    if (erased.isEmpty) return true;
    const tenantId = projects.get(entity.projectId)?.tenantId;
    return tenantId === undefined || erased.isVisibleEntity({ ...entity, tenantId });
  };
}

interface ErasedSource extends Pick<DirectoryHandle, 'caughtUp'> {
  readonly current: Pick<Directory, 'erased'>;
}

/** Wraps a session cache so that erased sessions are hidden. Ingest must not acknowledge events of an erased session. */
export function visibleSessions(sessions: SessionCache, directory: ErasedSource): SessionCache {
  const { erased } = directory.current;
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
      if (!isGenerated) await rejectUntilHidden(sessions, directory, session, sessionId);
      return await sessions.register(session);
    },
  };
}

/**
 * Wraps a report cache. Rejects a new report with the id of an erased report. The cache alone cannot detect such an id, because
 * it hides erased reports.
 */
export function visibleReports(reports: ReportCache, directory: ErasedSource): ReportCache {
  const { erased } = directory.current;
  return {
    ...reports,
    file: async (record, isGenerated = false) => {
      const { reportId } = record;
      if (!erased.isVisibleEntity(record))
        throw new Rejected('conflict', `report ${reportId} was erased; a new report has another id`);
      if (!isGenerated) await rejectUntilHidden(reports, directory, record, reportId);
      return await reports.file(record);
    },
  };
}

/** @throws Unavailable while ClickHouse still has a row with this id from before the erasure */
async function rejectUntilHidden(
  records: Pick<SessionCache, 'hasHidden'>,
  directory: ErasedSource,
  owner: { readonly tenantId: string; readonly projectId: string },
  id: string,
): Promise<void> {
  const { tenantId, projectId } = owner;
  const { erased } = directory.current;
  if (!erased.isHiding(tenantId, projectId)) return;
  const isDeleting = erased.isDeleting(tenantId, projectId);
  if (await records.hasHidden(projectId, id, isDeleting))
    throw new Unavailable(`${id} still has a row from before the erasure; try again`, { retryAfterS: 5 });
  if (isDeleting) return;
  // Looks up the id again if a deletion started during the lookup, because the lookup queried only one node.
  await directory.caughtUp();
  if (erased.isDeleting(tenantId, projectId)) await rejectUntilHidden(records, directory, owner, id);
}
