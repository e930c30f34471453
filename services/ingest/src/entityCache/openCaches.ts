/** Opens the caches of sessions and reports of an ingest process. */
import type { Projections } from '@questlog/runtime/log/projection/projection';
import { steadyClock } from '@questlog/runtime/process/clock';
import { PROJECTED } from '@questlog/schemas/tables/projected';
import type { IngestContext } from '../context.ts';
import type { EntityCacheDeps } from './entityCache.ts';
import { openReportCache, type ReportCache } from './reportCache.ts';
import { warnIfRestored, watchRestoredTable } from './restoredTable.ts';
import { openSessionCache, type SessionCache } from './sessionCache.ts';
import { isVisibleIn, visibleReports, visibleSessions } from './visibleCaches.ts';

/** Opens the caches, and warns if restored tables in ClickHouse lack rows. */
export async function openCaches(
  context: IngestContext,
  projections: Projections,
  truncation: Pick<EntityCacheDeps, 'onTruncated' | 'onReappended'>,
): Promise<{ sessions: SessionCache; reports: ReportCache }> {
  const { log, store, directory, health, lifecycle } = context;
  const { current } = directory;
  const sourceOf = (topic: 'sessions' | 'reports') => ({
    ...{ ...context, ...truncation, isVisible: isVisibleIn(current), projection: projections[topic] },
    table: watchRestoredTable({ log, store, clock: steadyClock }, PROJECTED[topic]),
  });
  const sessions = await openSessionCache(sourceOf('sessions'));
  lifecycle.onStop('sessions', () => sessions.close());
  const reports = await openReportCache(sourceOf('reports'));
  lifecycle.onStop('reports', () => reports.close());
  warnIfRestored(health, [sessions, reports]);
  return {
    sessions: visibleSessions(sessions, current),
    reports: visibleReports(reports, current),
  };
}
