/**
 * Finds what belongs to reports: the events of their sessions and windows, and those that they name, which are not
 * linked yet; and the linked ones, to be taken back. Pairs of a report and an event come first, then whole events, as
 * many as an answer takes.
 */
import { chunksOf, type Store } from '@questlog/runtime/clickhouse/store';
import { partitionOf } from '@questlog/schemas/partition';
import { LINK_VERSIONS, type LinkSource } from '@questlog/schemas/topics/linkedEvents';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { keyOf } from '../core/decision.ts';
import type { Ask, Found, FoundEvent, KnownReport } from '../core/jobs.ts';
import { byPlace, type EventPlace, eventPlaces, PLACE_COLUMNS, wholeEvents } from './storedEvents.ts';

/** Whose look-ups these are. */
export interface LookUpSource {
  readonly store: Store;
  readonly logId: string;
  readonly partition: number;
  readonly partitions: number;
}

interface Pair {
  readonly ask: Pick<Ask, 'key' | 'record'>;
  readonly event: EventPlace;
  readonly source: LinkSource;
}

/** Rows of one query; with as many there may be more. */
const MAX_PAIRS = 20_000;

/** @param below the partition's own events are seen below this offset only; those behind are linked as they come. */
export async function unlinkedPairs(
  source: LookUpSource,
  asks: readonly Ask[],
  below: number,
): Promise<Found> {
  const named = await namedPairs(source, asks, below);
  const told = await sessionLinksOf(source, asks);
  const ofSessions = await sessionPairs(source, asks, told, below);
  const { found, isWhole } = await withEvents(source, [...named.pairs, ...ofSessions.pairs]);
  return { found, isWhole: isWhole && ofSessions.isWhole, missing: named.missing, told, below };
}

/** What a row of `report_link_versions` links. */
interface LinkRow {
  readonly projectId: string;
  readonly reportId: string;
  readonly eventId: string;
}

const LINK_COLUMNS = 'project_id AS projectId, report_id AS reportId, event_id AS eventId';

/** Links of another log, from which this one was moved, are taken back at the tenant's home. */
export async function linkedPairs(
  source: LookUpSource,
  reports: ReadonlyMap<string, KnownReport>,
): Promise<Pick<Found, 'found' | 'isWhole'>> {
  if (reports.size === 0) return { found: [], isWhole: true };
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
  const places = await eventPlaces(store, records, ids);
  const pairs = rows.flatMap((row): Pair[] => {
    const key = keyOf(row);
    const record = reports.get(key)?.record;
    const event = places.get(`${row.projectId}/${row.eventId}`);
    return record === undefined || event === undefined
      ? []
      : [{ ask: { key, record }, event, source: row.source }];
  });
  const { found, isWhole } = await withEvents(source, pairs);
  return { found, isWhole: isWhole && rows.length < MAX_PAIRS };
}

/** Of late events' sessions there may be more reports than one query takes. */
async function sessionPairs(
  source: LookUpSource,
  asks: readonly Ask[],
  told: ReadonlyMap<string, number>,
  below: number,
): Promise<{ pairs: Pair[]; isWhole: boolean }> {
  const asked = asks.flatMap(({ key, record, session }) => {
    const left = record.maxSessionLinks - (told.get(key) ?? 0);
    return session === null || left <= 0 ? [] : [{ key, record, session, left }];
  });
  const all: Pair[] = [];
  for (const part of chunksOf(asked)) {
    const { pairs, isWhole } = await pairsOf(source, part, below);
    all.push(...pairs);
    if (!isWhole) return { pairs: all, isWhole };
  }
  return { pairs: all, isWhole: true };
}

interface SessionAsk {
  readonly key: string;
  readonly record: ReportLink;
  readonly session: NonNullable<Ask['session']>;
  /** Links that the report may still get. */
  readonly left: number;
}

/** How many links each of the reports has by its session, those taken back among them; none is left out. */
async function sessionLinksOf({ store }: LookUpSource, asks: readonly Ask[]): Promise<Map<string, number>> {
  const told = new Map<string, number>();
  for (const part of chunksOf(asks.filter(({ session }) => session !== null))) {
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
    for (const { key } of part) told.set(key, made.get(key) ?? 0);
  }
  return told;
}

async function pairsOf(
  { store, logId, partition }: LookUpSource,
  asked: readonly SessionAsk[],
  below: number,
): Promise<{ pairs: Pair[]; isWhole: boolean }> {
  const times = asked.flatMap(({ session }) => [session.fromMicros, session.toMicros]).sort(ascending);
  const rows = await store.query<EventPlace & { readonly reportId: string }>(
    `WITH asked AS
       (SELECT report.1 AS report_id, report.2 AS project_id, report.3 AS session_id, report.4 AS from_micros,
          report.5 AS to_micros, report.6 AS tenant_id
        FROM (SELECT arrayJoin(arrayZip({reports:Array(UUID)}, {projects:Array(UUID)}, {sessions:Array(UUID)},
          {froms:Array(Int64)}, {tos:Array(Int64)}, {tenantOf:Array(UUID)})) AS report))
     SELECT asked.report_id AS reportId, ${PLACE_COLUMNS}
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
      reports: asked.map(({ record }) => record.reportId),
      projects: asked.map(({ record }) => record.projectId),
      sessions: asked.map(({ session }) => session.id),
      froms: asked.map(({ session }) => session.fromMicros),
      tos: asked.map(({ session }) => session.toMicros),
      tenantOf: asked.map(({ record }) => record.tenantId),
      tenants: [...new Set(asked.map(({ record }) => record.tenantId))],
      least: clamped(times.at(0) ?? 0n),
      most: clamped(times.at(-1) ?? 0n),
      logId,
      partition,
      below,
      limit: MAX_PAIRS,
    },
  );
  const byKey = new Map(asked.map((ask) => [ask.key, { ...ask }]));
  const pairs = rows.flatMap((row): Pair[] => {
    const ask = byKey.get(keyOf(row));
    if (ask === undefined || ask.left <= 0 || ask.session.except.includes(row.id)) return [];
    ask.left--;
    return [{ ask, event: row, source: 'session' }];
  });
  return { pairs, isWhole: rows.length < MAX_PAIRS };
}

/** ClickHouse's DateTime64 holds the years 1900 to 2299, and so do events. */
function clamped(micros: bigint): bigint {
  const [first, last] = [BigInt(Date.UTC(1900, 0, 1)) * 1000n, BigInt(Date.UTC(2300, 0, 1)) * 1000n - 1n];
  return micros < first ? first : micros > last ? last : micros;
}

function ascending(a: bigint, b: bigint): number {
  return a < b ? -1 : Number(a > b);
}

/** Tells, per report, also which events it names that are nowhere. */
async function namedPairs(
  source: LookUpSource,
  asks: readonly Ask[],
  below: number,
): Promise<{ pairs: Pair[]; missing: Map<string, string[]> }> {
  const records = asks.map(({ record }) => record);
  const ids = [...new Set(asks.flatMap(({ events }) => [...events.keys()]))];
  const places = await eventPlaces(source.store, records, ids);
  const linked = await linkedAlready(source, records, ids);
  const pairs: Pair[] = [];
  const missing = new Map<string, string[]>(asks.map(({ key }) => [key, []]));
  for (const ask of asks) {
    const { projectId, tenantId } = ask.record;
    for (const [id, way] of ask.events) {
      const event = places.get(`${projectId}/${id}`);
      // One that is not seen yet is linked as it comes, or came too late: then it is as good as not there.
      const isThere = event?.tenantId === tenantId && isSeen(event, source, below);
      if (!isThere) missing.get(ask.key)?.push(id);
      else if (!linked.has(`${ask.key}/${id}`)) pairs.push({ ask, event, source: way });
    }
  }
  return { pairs, missing };
}

function isSeen(row: EventPlace, { logId, partition }: LookUpSource, below: number): boolean {
  return row.logId !== logId || row.logPartition !== partition || Number(row.logOffset) < below;
}

/** Pairs as `project/report/event` that are linked now, or were taken back. */
async function linkedAlready(
  { store }: LookUpSource,
  reports: readonly ReportLink[],
  ids: readonly string[],
): Promise<Set<string>> {
  const linked = new Set<string>();
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
    for (const row of rows) linked.add(`${keyOf(row)}/${row.eventId}`);
  }
  return linked;
}

/** Gives events in the order of the log; not whole if the answer would become too large. */
async function withEvents(
  { store }: LookUpSource,
  pairs: readonly Pair[],
): Promise<{ found: FoundEvent[]; isWhole: boolean }> {
  const inOrder = pairs.toSorted((a, b) => byPlace(a.event, b.event));
  const { events, taken } = await wholeEvents(
    store,
    inOrder.map(({ event }) => event),
  );
  const found = inOrder.slice(0, taken).flatMap(({ ask: { key, record }, event: place, source }) => {
    const event = events.get(`${place.projectId}/${place.id}`);
    return event === undefined ? [] : [{ key, record, event, source }];
  });
  return { found, isWhole: taken === pairs.length };
}
