/** What a partition has linked to reports, to be taken back. */
import { partitionOf } from '@questlog/schemas/partition';
import type { LinkSource } from '@questlog/schemas/topics/linkedEvents';
import { keyOf } from '../core/decision.ts';
import type { Found, KnownReport } from '../core/jobs.ts';
import { type LookUpSource, MAX_PAIRS, type Pair, withEvents } from './pairs.ts';
import { eventPlaces, placeOf } from './storedEvents.ts';

interface LinkRow {
  readonly project_id: string;
  readonly report_id: string;
  readonly event_id: string;
  readonly source: LinkSource;
}

/** Links of another log, from which this one was moved, are taken back at the tenant's home. */
export async function linkedPairs(
  source: LookUpSource,
  reports: ReadonlyMap<string, KnownReport>,
): Promise<Pick<Found, 'found' | 'isWhole'>> {
  if (reports.size === 0) return { found: [], isWhole: true };
  const { store, logId, partition, partitions } = source;
  const records = [...reports.values()].map(({ record }) => record);
  const atHome = records.filter(({ tenantId }) => partitionOf(tenantId, 0, partitions) === partition);
  const rows = await store.query<LinkRow>(
    `SELECT project_id, report_id, event_id, source FROM report_link_versions FINAL
     WHERE report_id IN {reports:Array(UUID)} AND (project_id, report_id) IN
         (SELECT pair.1, pair.2 FROM
           (SELECT arrayJoin(arrayZip({projects:Array(UUID)}, {reports:Array(UUID)})) AS pair))
       AND state = 'linked' AND (log_id = {logId:UUID} AND log_partition = {partition:UInt32}
         OR log_id != {logId:UUID} AND report_id IN {atHome:Array(UUID)})
     ORDER BY project_id, event_id, report_id LIMIT {limit:UInt32}`,
    {
      projects: records.map(({ projectId }) => projectId),
      reports: records.map(({ reportId }) => reportId),
      atHome: atHome.map(({ reportId }) => reportId),
      logId,
      partition,
      limit: MAX_PAIRS,
    },
  );
  const ids = [...new Set(rows.map((row) => row.event_id))];
  const places = await eventPlaces(store, records, ids);
  const pairs = rows.flatMap((row): Pair[] => {
    const key = keyOf({ projectId: row.project_id, reportId: row.report_id });
    const record = reports.get(key)?.record;
    const place = places.get(`${row.project_id}/${row.event_id}`);
    if (record === undefined || place === undefined) return [];
    return [{ ask: { key, record }, event: placeOf(place), source: row.source }];
  });
  const { found, isWhole } = await withEvents(source, pairs);
  return { found, isWhole: isWhole && rows.length < MAX_PAIRS };
}
