/** Opens the caches of sessions and reports of an ingest process. */
import type { Projections } from '@questlog/runtime/log/projection/projection';
import { steadyClock } from '@questlog/runtime/process/clock';
import { PROJECTED } from '@questlog/schemas/tables/projected';
import type { IngestContext } from '../context.ts';
import type { EntityCacheDeps } from './entityCache.ts';
import { excludeErasedReports, openReportCache, type ReportCache } from './reportCache.ts';
import { warnIfRestored, watchRestoredTable } from './restoredTable.ts';
import { excludeErasedSessions, isErasedIn, openSessionCache, type SessionCache } from './sessionCache.ts';

/** Opens caches that hide erased data, and warns if restored tables in ClickHouse lack rows. */
export async function openCaches(
  context: IngestContext,
  projections: Projections,
  truncation: Pick<EntityCacheDeps, 'onTruncated' | 'onReappended'>,
): Promise<{ sessions: SessionCache; reports: ReportCache }> {
  const { log, store, directory, health, lifecycle } = context;
  const { current } = directory;
  const sourceOf = (topic: 'sessions' | 'reports') => ({
    ...{ ...context, ...truncation, isErased: isErasedIn(current), projection: projections[topic] },
    table: watchRestoredTable({ log, store, clock: steadyClock }, PROJECTED[topic]),
  });
  const sessions = await openSessionCache(sourceOf('sessions'));
  lifecycle.onStop('sessions', () => sessions.close());
  const reports = await openReportCache(sourceOf('reports'));
  lifecycle.onStop('reports', () => reports.close());
  warnIfRestored(health, [sessions, reports]);
  return {
    sessions: excludeErasedSessions(sessions, current),
    reports: excludeErasedReports(reports, current.erased),
  };
}
