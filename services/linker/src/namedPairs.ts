/** Events that reports name and that are not linked to them yet. */
import { LINK_VERSIONS } from '@questlog/schemas/topics/linkedEvents';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import type { Ask } from './core/jobs.ts';
import type { LookUpSource, Pair } from './lookUps/pairs.ts';
import { eventPlaces, MAX_IDS, type PlaceRow, placeOf } from './lookUps/storedEvents.ts';

/** Also tells, per report, what it names and what is nowhere. */
export async function namedPairs(
  source: LookUpSource,
  asks: readonly Ask[],
  below: number,
  missing: Map<string, readonly string[]>,
): Promise<Pair[]> {
  const records = asks.map(({ record }) => record);
  const ids = [...new Set(asks.flatMap(({ events }) => [...events.keys()]))];
  const rows = await eventPlaces(source.store, records, ids);
  const linked = await linkedAlready(source, records, ids);
  return asks.flatMap((ask) => {
    const { projectId, tenantId } = ask.record;
    const lost: string[] = [];
    const pairs: Pair[] = [];
    for (const [id, way] of ask.events) {
      const row = rows.get(`${projectId}/${id}`);
      // One that is not seen yet is linked as it comes, or came too late: then it is as good as not there.
      if (row === undefined || row.tenant_id !== tenantId || !isSeen(row, source, below)) lost.push(id);
      else if (!linked.has(`${ask.key}/${id}`)) pairs.push({ ask, event: placeOf(row), source: way });
    }
    missing.set(ask.key, lost);
    return pairs;
  });
}

function isSeen(row: PlaceRow, { logId, partition }: LookUpSource, below: number): boolean {
  return row.log_id !== logId || row.log_partition !== partition || Number(row.log_offset) < below;
}

interface LinkRow {
  readonly project_id: string;
  readonly report_id: string;
  readonly event_id: string;
}

/** As `project/report/event`: linked now, or taken back. */
async function linkedAlready(
  { store }: LookUpSource,
  reports: readonly ReportLink[],
  ids: readonly string[],
): Promise<Set<string>> {
  const linked = new Set<string>();
  for (let i = 0; i < ids.length; i += MAX_IDS) {
    const rows = await store.query<LinkRow>(
      `SELECT project_id, report_id, event_id FROM report_link_versions
       WHERE project_id IN {projects:Array(UUID)} AND event_id IN {ids:Array(UUID)}
         AND report_id IN {reports:Array(UUID)} AND version >= ${LINK_VERSIONS.linked}`,
      {
        projects: [...new Set(reports.map(({ projectId }) => projectId))],
        reports: [...new Set(reports.map(({ reportId }) => reportId))],
        ids: ids.slice(i, i + MAX_IDS),
      },
    );
    for (const row of rows) linked.add(`${row.project_id}/${row.report_id}/${row.event_id}`);
  }
  return linked;
}
