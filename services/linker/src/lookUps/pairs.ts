/** Finds events that must be linked to reports, and links that must be retracted. The first queries read only ids. */
import { chunksOf, type Store } from '@questlog/runtime/clickhouse/store';
import { partitionOf } from '@questlog/schemas/partition';
import { LINK_VERSIONS, type LinkSource } from '@questlog/schemas/topics/linkedEvents';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { keyOf } from '../core/decision.ts';
import type { FoundEvent, FoundLinks, LinkQuery, ProjectedReport } from '../core/jobs.ts';
import {
  byLogPosition,
  type EventLocation,
  eventLocations,
  fullEvents,
  LOCATION_COLUMNS,
} from './storedEvents.ts';

export interface LookUpSource {
  readonly store: Store;
  readonly logId: string;
  readonly partition: number;
  readonly partitions: number;
}

interface Pair {
  readonly query: Pick<LinkQuery, 'key' | 'record'>;
  readonly event: EventLocation;
  readonly source: LinkSource;
}

/** Maximum number of rows of one query. If a result has this number of rows, further rows can be missing. */
const MAX_PAIRS = 20_000;

/**
 * Returns the reports' events that are not linked yet. Includes events of this partition only if their offset is lower than
 * `below`.
 */
export async function unlinkedPairs(
  source: LookUpSource,
  queries: readonly LinkQuery[],
  below: number,
): Promise<FoundLinks> {
  const named = await namedPairs(source, queries, below);
  const linkCounts = await sessionLinksOf(source, queries);
  const ofSessions = await sessionPairs(source, queries, linkCounts, below);
  const { found, isComplete } = await withEvents(source, [...named.pairs, ...ofSessions.pairs]);
  return {
    found,
    isComplete: isComplete && ofSessions.isComplete,
    missing: named.missing,
    linkCounts,
    below,
  };
}

interface LinkRow {
  readonly projectId: string;
  readonly reportId: string;
  readonly eventId: string;
}

const LINK_COLUMNS = 'project_id AS projectId, report_id AS reportId, event_id AS eventId';

export async function linkedPairs(
  source: LookUpSource,
  reports: ReadonlyMap<string, ProjectedReport>,
): Promise<Pick<FoundLinks, 'found' | 'isComplete'>> {
  if (reports.size === 0) return { found: [], isComplete: true };
  const { store, logId, partition, partitions } = source;
  const records = [...reports.values()].map(({ record }) => record);
  const atHome = records.filter(({ tenantId }) => partitionOf(tenantId, 0, partitions) === partition);
  const rows = await store.query<LinkRow & { readonly source: LinkSource }>(
    `SELECT ${LINK_COLUMNS}, source FROM report_link_versions FINAL
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
  const ids = [...new Set(rows.map(({ eventId }) => eventId))];
  const locations = await eventLocations(store, records, ids);
  const pairs = rows.flatMap((row): Pair[] => {
    const key = keyOf(row);
    const record = reports.get(key)?.record;
    const event = locations.get(`${row.projectId}/${row.eventId}`);
    return record === undefined || event === undefined
      ? []
      : [{ query: { key, record }, event, source: row.source }];
  });
  const { found, isComplete } = await withEvents(source, pairs);
  return { found, isComplete: isComplete && rows.length < MAX_PAIRS };
}

async function sessionPairs(
  source: LookUpSource,
  queries: readonly LinkQuery[],
  linkCounts: ReadonlyMap<string, number>,
  below: number,
): Promise<{ pairs: Pair[]; isComplete: boolean }> {
  const sessionQueries = queries.flatMap(({ key, record, session }) => {
    const remaining = record.maxSessionLinks - (linkCounts.get(key) ?? 0);
    return session === null || remaining <= 0 ? [] : [{ key, record, session, remaining }];
  });
  const all: Pair[] = [];
  for (const part of chunksOf(sessionQueries)) {
    const { pairs, isComplete } = await pairsOf(source, part, below);
    all.push(...pairs);
    if (!isComplete) return { pairs: all, isComplete };
  }
  return { pairs: all, isComplete: true };
}

interface SessionQuery {
  readonly key: string;
  readonly record: ReportLink;
  readonly session: NonNullable<LinkQuery['session']>;
  readonly remaining: number;
}

/** Counts, for each report, the links to events of the report's session. Includes retracted links. */
async function sessionLinksOf(
  { store }: LookUpSource,
  queries: readonly LinkQuery[],
): Promise<Map<string, number>> {
  const linkCounts = new Map<string, number>();
  for (const part of chunksOf(queries.filter(({ session }) => session !== null))) {
    const rows = await store.query<Pick<LinkRow, 'projectId' | 'reportId'> & { readonly made: string }>(
      `SELECT project_id AS projectId, report_id AS reportId, uniqExact(event_id) AS made FROM report_link_versions
       WHERE report_id IN {reports:Array(UUID)} AND project_id IN {projects:Array(UUID)} AND source = 'session'
         AND version >= ${LINK_VERSIONS.linked}
       GROUP BY project_id, report_id`,
      {
        reports: part.map(({ record }) => record.reportId),
        projects: [...new Set(part.map(({ record }) => record.projectId))],
      },
    );
    const made = new Map(rows.map((row) => [keyOf(row), Number(row.made)]));
    for (const { key } of part) linkCounts.set(key, made.get(key) ?? 0);
  }
  return linkCounts;
}

async function pairsOf(
  { store, logId, partition }: LookUpSource,
  sessionQueries: readonly SessionQuery[],
  below: number,
): Promise<{ pairs: Pair[]; isComplete: boolean }> {
  const times = sessionQueries
    .flatMap(({ session }) => [session.fromMicros, session.toMicros])
    .sort(ascending);
  const rows = await store.query<EventLocation & { readonly reportId: string }>(
    `WITH asked AS
       (SELECT report.1 AS report_id, report.2 AS project_id, report.3 AS session_id, report.4 AS from_micros,
          report.5 AS to_micros, report.6 AS tenant_id
        FROM (SELECT arrayJoin(arrayZip({reports:Array(UUID)}, {projects:Array(UUID)}, {sessions:Array(UUID)},
          {froms:Array(Int64)}, {tos:Array(Int64)}, {tenantOf:Array(UUID)})) AS report))
     SELECT asked.report_id AS reportId, ${LOCATION_COLUMNS}
     FROM events INNER JOIN asked ON events.project_id = asked.project_id
       AND events.session_id = asked.session_id AND events.tenant_id = asked.tenant_id
     WHERE events.tenant_id IN {tenants:Array(UUID)} AND events.project_id IN {projects:Array(UUID)}
       AND events.session_id IN {sessions:Array(UUID)}
       AND events.occurred_at >= fromUnixTimestamp64Micro({least:Int64}, 'UTC')
       AND events.occurred_at <= fromUnixTimestamp64Micro({most:Int64}, 'UTC')
       AND toUnixTimestamp64Micro(events.occurred_at) BETWEEN asked.from_micros AND asked.to_micros
       AND NOT (events.log_id = {logId:UUID} AND events.log_partition = {partition:UInt32} AND events.log_offset >= {below:UInt64})
       AND (events.project_id, events.id, asked.report_id) NOT IN
         (SELECT project_id, event_id, report_id FROM report_link_versions
          WHERE report_id IN {reports:Array(UUID)} AND version >= ${LINK_VERSIONS.linked})
     ORDER BY logPartition, logOffset, logIndex LIMIT 1 BY reportId, projectId, id
     LIMIT {limit:UInt32}`,
    {
      reports: sessionQueries.map(({ record }) => record.reportId),
      projects: sessionQueries.map(({ record }) => record.projectId),
      sessions: sessionQueries.map(({ session }) => session.id),
      froms: sessionQueries.map(({ session }) => session.fromMicros),
      tos: sessionQueries.map(({ session }) => session.toMicros),
      tenantOf: sessionQueries.map(({ record }) => record.tenantId),
      tenants: [...new Set(sessionQueries.map(({ record }) => record.tenantId))],
      least: clamped(times.at(0) ?? 0n),
      most: clamped(times.at(-1) ?? 0n),
      logId,
      partition,
      below,
      limit: MAX_PAIRS,
    },
  );
  const byKey = new Map(sessionQueries.map((query) => [query.key, { ...query }]));
  const pairs = rows.flatMap((row): Pair[] => {
    const query = byKey.get(keyOf(row));
    if (query === undefined || query.remaining <= 0 || query.session.excludedEventIds.includes(row.id))
      return [];
    query.remaining--;
    return [{ query, event: row, source: 'session' }];
  });
  return { pairs, isComplete: rows.length < MAX_PAIRS };
}

/** Limits the time to the range of ClickHouse's DateTime64, which is 1900 to 2299. */
function clamped(micros: bigint): bigint {
  const [first, last] = [BigInt(Date.UTC(1900, 0, 1)) * 1000n, BigInt(Date.UTC(2300, 0, 1)) * 1000n - 1n];
  return micros < first ? first : micros > last ? last : micros;
}

function ascending(a: bigint, b: bigint): number {
  return a < b ? -1 : Number(a > b);
}

async function namedPairs(
  source: LookUpSource,
  queries: readonly LinkQuery[],
  below: number,
): Promise<{ pairs: Pair[]; missing: Map<string, string[]> }> {
  const records = queries.map(({ record }) => record);
  const ids = [...new Set(queries.flatMap(({ events }) => [...events.keys()]))];
  const locations = await eventLocations(source.store, records, ids);
  const existing = await existingLinks(source, records, ids);
  const pairs: Pair[] = [];
  const missing = new Map<string, string[]>(queries.map(({ key }) => [key, []]));
  for (const query of queries) {
    const { projectId, tenantId } = query.record;
    for (const [id, way] of query.events) {
      const event = locations.get(`${projectId}/${id}`);
      // Counts an event as missing if its offset in this partition is not lower than `below`. The linker links such an event
      // later, when it reads the event from the log.
      const isSeenEvent = event?.tenantId === tenantId && isSeen(event, source, below);
      if (!isSeenEvent) missing.get(query.key)?.push(id);
      else if (!existing.has(`${query.key}/${id}`)) pairs.push({ query, event, source: way });
    }
  }
  return { pairs, missing };
}

function isSeen(row: EventLocation, { logId, partition }: LookUpSource, below: number): boolean {
  return row.logId !== logId || row.logPartition !== partition || Number(row.logOffset) < below;
}

async function existingLinks(
  { store }: LookUpSource,
  reports: readonly ReportLink[],
  ids: readonly string[],
): Promise<Set<string>> {
  const existing = new Set<string>();
  for (const part of chunksOf(ids)) {
    const rows = await store.query<LinkRow>(
      `SELECT ${LINK_COLUMNS} FROM report_link_versions
       WHERE project_id IN {projects:Array(UUID)} AND event_id IN {ids:Array(UUID)}
         AND report_id IN {reports:Array(UUID)} AND version >= ${LINK_VERSIONS.linked}`,
      {
        projects: [...new Set(reports.map(({ projectId }) => projectId))],
        reports: [...new Set(reports.map(({ reportId }) => reportId))],
        ids: part,
      },
    );
    for (const row of rows) existing.add(`${keyOf(row)}/${row.eventId}`);
  }
  return existing;
}

/** Reads the events of the links in log order, up to a byte limit. `isComplete` is false if the limit excludes events. */
async function withEvents(
  { store }: LookUpSource,
  pairs: readonly Pair[],
): Promise<{ found: FoundEvent[]; isComplete: boolean }> {
  const inOrder = pairs.toSorted((a, b) => byLogPosition(a.event, b.event));
  const { events, taken } = await fullEvents(
    store,
    inOrder.map(({ event }) => event),
  );
  const found = inOrder.slice(0, taken).flatMap(({ query: { key, record }, event: place, source }) => {
    const event = events.get(`${place.projectId}/${place.id}`);
    return event === undefined ? [] : [{ key, record, event, source }];
  });
  return { found, isComplete: taken === pairs.length };
}
