/** Queries the stored rows that a verification compares with log records. */
import { chunksOf, type Store } from '@questlog/runtime/clickhouse/store';
import { OF_OFFSETS, storedEvents } from '@questlog/runtime/clickhouse/storedEvents';
import type { VerifySummary } from '@questlog/schemas/http/ledger';
import { ERASED_EVENT_COUNT } from '@questlog/schemas/tables/erasedEvents';
import type { LoggedRecord, StoredOffset } from './core/compareRecords.ts';

export interface TimeRange {
  readonly fromMs: number;
  readonly toMs: number;
  readonly tenantId: string | undefined;
}

interface OffsetRange {
  readonly logId: string;
  readonly partition: number;
  readonly start: number;
  readonly end: number;
}

export interface MinuteCount {
  readonly tenantId: string;
  readonly receivedAtMs: number;
  readonly expected: number;
  readonly found: number;
}

type UncomparedCounts = Pick<VerifySummary, 'expired' | 'cut' | 'ofOtherLogs'>;

export interface StoredRows {
  rowsOf(times: TimeRange, offsets: OffsetRange): Promise<StoredOffset[]>;
  /** Returns the records whose events ClickHouse has stored under the offset of another record. */
  storedByOtherRecords(records: readonly LoggedRecord[]): Promise<ReadonlySet<LoggedRecord>>;
  expiredRecords(records: readonly LoggedRecord[]): Promise<ReadonlySet<LoggedRecord>>;
  /** Counts stored events whose log record does not exist any more, because it has expired or was lost in a truncation. */
  countWithoutRecords(
    times: TimeRange,
    log: { readonly logId: string; readonly starts: readonly number[] },
  ): Promise<UncomparedCounts>;
  /** Returns the minutes in which `event_counts_by_minute` and `events` contain different numbers of events. */
  miscountedMinutes(times: TimeRange, limit: number): Promise<MinuteCount[]>;
  /** Returns the minutes in which the view `ledger` shows that events are missing in the log or in ClickHouse. */
  unbalancedMinutes(times: TimeRange, limit: number): Promise<MinuteCount[]>;
}

export function openStoredRows(store: Store): StoredRows {
  return {
    rowsOf: (times, offsets) => rowsOf(store, times, offsets),
    storedByOtherRecords: (records) => storedByOtherRecords(store, records),
    expiredRecords: (records) => expiredRecords(store, records),
    countWithoutRecords: (times, log) => countWithoutRecords(store, times, log),
    miscountedMinutes: (times, limit) => miscountedMinutes(store, times, limit),
    unbalancedMinutes: (times, limit) => unbalancedMinutes(store, times, limit),
  };
}

async function rowsOf(store: Store, times: TimeRange, offsets: OffsetRange): Promise<StoredOffset[]> {
  const rows = await store.query<Record<'offset' | 'receivedAtMs' | 'rows' | 'events' | 'tenantId', string>>(
    `SELECT log_offset AS offset, any(tenant_id) AS tenantId, count() AS rows, uniqExact(log_index) AS events,
       toUnixTimestamp64Milli(min(received_at)) AS receivedAtMs
     FROM events
     WHERE ${OF_OFFSETS} AND ${inTimeRange(times)}
     GROUP BY log_offset`,
    { ...offsets, ...times },
  );
  return rows.map(({ tenantId, ...numbers }) => ({
    tenantId,
    offset: Number(numbers.offset),
    receivedAtMs: Number(numbers.receivedAtMs),
    rows: Number(numbers.rows),
    events: Number(numbers.events),
  }));
}

async function storedByOtherRecords(
  store: Store,
  records: readonly LoggedRecord[],
): Promise<ReadonlySet<LoggedRecord>> {
  const storedIds = new Set<string>();
  for (const part of chunksOf(records)) {
    const filter = { ids: part.map(({ firstId }) => firstId), owners: part };
    for (const { id } of await storedEvents<{ id: string }>(store, 'id', filter)) storedIds.add(id);
  }
  return new Set(records.filter(({ firstId }) => storedIds.has(firstId)));
}

async function expiredRecords(
  store: Store,
  records: readonly LoggedRecord[],
): Promise<ReadonlySet<LoggedRecord>> {
  const before = new Map<string, number>();
  for (const part of chunksOf([...new Set(records.map(({ projectId }) => projectId))])) {
    const rows = await store.query<{ projectId: string; beforeMs: string }>(
      `SELECT project_id AS projectId, toUnixTimestamp64Milli(max(expired_before)) AS beforeMs
       FROM retention_marks WHERE what = 'events' AND project_id IN {part:Array(UUID)} GROUP BY projectId`,
      { part },
    );
    for (const { projectId, beforeMs } of rows) before.set(projectId, Number(beforeMs));
  }
  return new Set(
    records.filter(({ projectId, receivedAtMs }) => receivedAtMs < (before.get(projectId) ?? 0)),
  );
}

async function countWithoutRecords(
  store: Store,
  times: TimeRange,
  log: { readonly logId: string; readonly starts: readonly number[] },
): Promise<UncomparedCounts> {
  const [row] = await store.query<Record<'expired' | 'cut' | 'others', string>>(
    `SELECT countIf(log_id = {logId:UUID} AND log_offset < {starts:Array(UInt64)}[log_partition + 1]) AS expired,
       countIf(log_id IN (SELECT orphan_id FROM truncations)) AS cut, countIf(log_id != {logId:UUID}) AS others
     FROM events WHERE ${inTimeRange(times)}`,
    { ...log, ...times },
  );
  return {
    expired: Number(row?.expired ?? 0),
    cut: Number(row?.cut ?? 0),
    ofOtherLogs: Number(row?.others ?? 0) - Number(row?.cut ?? 0),
  };
}

async function miscountedMinutes(store: Store, times: TimeRange, limit: number): Promise<MinuteCount[]> {
  const rows = await store.query<MinuteRow>(
    // Does not report an erased event that still has a row, because the erasure may still be running.
    `SELECT tenant_id AS tenantId, toUnixTimestamp(minute) AS minuteS, sum(rows) AS held, sum(count) AS counted,
       sum(gone) AS erased
     FROM (
       SELECT tenant_id, minute, rows, count, 0 AS gone FROM (
         SELECT tenant_id, project_id, toStartOfMinute(received_at) AS minute, count() AS rows, 0 AS count
         FROM events WHERE ${inTimeRange(times)} GROUP BY tenant_id, project_id, minute
         UNION ALL
         SELECT tenant_id, project_id, minute, 0 AS rows, sum(count) AS count FROM event_counts_by_minute
         WHERE ${inTimeRange(times, 'minute')} GROUP BY tenant_id, project_id, minute
       ) AS minutes
       LEFT JOIN (
         SELECT project_id, max(expired_before) AS expired_before FROM retention_marks
         WHERE what = 'events' GROUP BY project_id
       ) AS marks ON marks.project_id = minutes.project_id
       WHERE minute >= marks.expired_before
       UNION ALL
       SELECT tenant_id, toStartOfMinute(received_at) AS minute, 0 AS rows, 0 AS count, sum(of_record) AS gone
       FROM (
         SELECT tenant_id, received_at, ${ERASED_EVENT_COUNT} AS of_record FROM erased_events FINAL WHERE ${inTimeRange(times)}
         GROUP BY tenant_id, received_at, log_id, log_partition, log_offset, erasure_id
         SETTINGS optimize_aggregation_in_order = 1
       ) GROUP BY tenant_id, minute
     )
     GROUP BY tenant_id, minute HAVING held > counted OR held + erased < counted
     ORDER BY minute, tenant_id LIMIT {limit:UInt32}`,
    { ...times, limit },
  );
  return rows.map(minuteOf);
}

type MinuteRow = Record<'tenantId' | 'minuteS' | 'held' | 'counted', string>;

async function unbalancedMinutes(store: Store, times: TimeRange, limit: number): Promise<MinuteCount[]> {
  const rows = await store.query<MinuteRow>(
    `SELECT tenant_id AS tenantId, toUnixTimestamp(minute) AS minuteS,
       greatest(accepted_events - least(sampled_events, accepted_events), logged_events) AS held, held - missing_events - unlogged_events AS counted
     FROM ledger
     WHERE ${inTimeRange(times, 'minute')} AND missing_events + unlogged_events > 0
     ORDER BY minute, tenantId LIMIT {limit:UInt32}`,
    { ...times, limit },
  );
  return rows.map(minuteOf);
}

function minuteOf({ tenantId, minuteS, held, counted }: MinuteRow): MinuteCount {
  return {
    tenantId,
    receivedAtMs: Number(minuteS) * 1000,
    expected: Number(held),
    found: Number(counted),
  };
}

export function inTimeRange({ tenantId }: TimeRange, column = 'received_at'): string {
  const ofTenant = tenantId === undefined ? '' : 'AND tenant_id = {tenantId:UUID}';
  return `${column} >= fromUnixTimestamp64Milli({fromMs:Int64}) AND ${column} < fromUnixTimestamp64Milli({toMs:Int64}) ${ofTenant}`;
}
