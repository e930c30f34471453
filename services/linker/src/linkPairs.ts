/**
 * Pairs of a report and an event in ClickHouse: those that belong together and are not linked yet, and those that are
 * linked. First the pairs, without payloads; then whole events, so many that a transaction takes them.
 */
import { LINK_VERSIONS, type LinkSource } from '@questlog/schemas/topics/linkedEvents';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { millisOf } from '@questlog/schemas/uuid';
import { keyOf } from './core/decision.ts';
import type { Ask, Found, FoundEvent, KnownReport } from './core/jobs.ts';
import { wholeEvents } from './eventRows.ts';
import { EVENT_COLUMNS, type EventRow, type Pair, placeOf } from './pair.ts';
import type { LookUpSource } from './reportRows.ts';
import { MAX_PAIRS, sessionPairs } from './sessionPairs.ts';

export interface LinkPairs {
  /** @param below the partition's own events are seen below this offset only; those behind are linked as they come. */
  unlinked(asks: readonly Ask[], below: number): Promise<Found>;
  /** What this partition has linked of the reports. */
  linked(reports: ReadonlyMap<string, KnownReport>): Promise<Pick<Found, 'found' | 'isWhole'>>;
}

/** Ids in one list. */
const MAX_IDS = 2_500;

export function openLinkPairs(source: LookUpSource): LinkPairs {
  return {
    unlinked: async (asks, below) => {
      const missing = new Map<string, readonly string[]>();
      const named = await namedPairs(source, asks, below, missing);
      const ofSessions = await sessionPairs(source, asks, below);
      const pairs = [...named, ...ofSessions.pairs];
      const { found, isWhole } = await withEvents(source, pairs);
      return { found, isWhole: isWhole && ofSessions.isWhole, missing };
    },
    linked: async (reports) => await withEvents(source, await linkedPairs(source, reports)),
  };
}

interface LinkRow {
  readonly project_id: string;
  readonly report_id: string;
  readonly event_id: string;
}

/** By project and id; what is nowhere is missing. */
async function eventPlaces(
  { store }: LookUpSource,
  reports: readonly ReportLink[],
  ids: readonly string[],
): Promise<Map<string, EventRow>> {
  const rows = new Map<string, EventRow>();
  for (let i = 0; i < ids.length; i += MAX_IDS) {
    const some = ids.slice(i, i + MAX_IDS);
    const found = await store.query<EventRow>(
      `SELECT ${EVENT_COLUMNS} FROM events
       WHERE tenant_id IN {tenants:Array(UUID)} AND project_id IN {projects:Array(UUID)}
         AND id_at IN (SELECT fromUnixTimestamp64Milli(arrayJoin({millis:Array(Int64)}), 'UTC'))
         AND id IN {ids:Array(UUID)} LIMIT 1 BY project_id, id`,
      {
        tenants: [...new Set(reports.map(({ tenantId }) => tenantId))],
        projects: [...new Set(reports.map(({ projectId }) => projectId))],
        millis: [...new Set(some.map(millisOf))],
        ids: some,
      },
    );
    for (const row of found) rows.set(`${row.project_id}/${row.id}`, row);
  }
  return rows;
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

/** Also tells, per report, what it names and what is nowhere. */
async function namedPairs(
  source: LookUpSource,
  asks: readonly Ask[],
  below: number,
  missing: Map<string, readonly string[]>,
): Promise<Pair[]> {
  const records = asks.map(({ record }) => record);
  const ids = [...new Set(asks.flatMap(({ events }) => [...events.keys()]))];
  const rows = await eventPlaces(source, records, ids);
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

function isSeen(row: EventRow, { logId, partition }: LookUpSource, below: number): boolean {
  return row.log_id !== logId || row.log_partition !== partition || Number(row.log_offset) < below;
}

/** Links of another log, from which this one was moved, are taken back too. */
async function linkedPairs(source: LookUpSource, reports: ReadonlyMap<string, KnownReport>): Promise<Pair[]> {
  if (reports.size === 0) return [];
  const records = [...reports.values()].map(({ record }) => record);
  const links = await source.store.query<LinkRow & { source: LinkSource }>(
    `SELECT project_id, report_id, event_id, source FROM report_link_versions FINAL
     WHERE project_id IN {projects:Array(UUID)} AND report_id IN {reports:Array(UUID)} AND state = 'linked'
       AND (log_id != {logId:UUID} OR log_partition = {partition:UInt32})
     LIMIT {limit:UInt32}`,
    {
      projects: [...new Set(records.map((record) => record.projectId))],
      reports: records.map((record) => record.reportId),
      logId: source.logId,
      partition: source.partition,
      limit: MAX_PAIRS,
    },
  );
  const rows = await eventPlaces(
    source,
    records,
    links.map((link) => link.event_id),
  );
  return links.flatMap((link): Pair[] => {
    const key = keyOf({ projectId: link.project_id, reportId: link.report_id });
    const record = reports.get(key)?.record;
    const row = rows.get(`${link.project_id}/${link.event_id}`);
    if (record === undefined || row === undefined) return [];
    return [{ ask: { key, record }, event: placeOf(row), source: link.source }];
  });
}

/** In the order of the log; cut where a transaction would become too large. */
async function withEvents(
  { store }: LookUpSource,
  pairs: readonly Pair[],
): Promise<{ found: FoundEvent[]; isWhole: boolean }> {
  const inOrder = pairs.toSorted((a, b) => a.event.order.localeCompare(b.event.order));
  const { events, taken } = await wholeEvents(
    store,
    inOrder.map(({ event }) => event),
  );
  const found = inOrder.slice(0, taken).flatMap(({ ask: { key, record }, event: place, source }) => {
    const event = events.get(`${place.projectId}/${place.id}`);
    return event === undefined ? [] : [{ key, record, event, source }];
  });
  return { found, isWhole: found.length === 0 || (taken === pairs.length && pairs.length < MAX_PAIRS) };
}
