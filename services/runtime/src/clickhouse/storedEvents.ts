/**
 * Reads stored events by id, and counts the stored rows of lost records. Compares the number of stored events with the ledger,
 * which counts accepted events.
 */
import { LEDGER_DIFFERENCE, type LedgerDifferenceRow } from '@questlog/schemas/tables/ledgerDifference';
import { millisOf } from '@questlog/schemas/uuid';
import type { Store } from './store.ts';

/** SQL condition for the rows of a partition's records. `logId` and `partition` are the parameters of the condition. */
export const OF_PARTITION = 'log_id = {logId:UUID} AND log_partition = {partition:UInt32}';
/** SQL condition for the rows of the records from the offset `start` up to `end`, without `end`. */
export const OF_OFFSETS = `${OF_PARTITION} AND log_offset >= {start:UInt64} AND log_offset < {end:UInt64}`;

export interface EventFilter {
  /** Ids of the events, at most `MAX_IDS_PER_QUERY`. */
  readonly ids: readonly string[];
  /** Tenants and projects to which the events can belong. */
  readonly owners: readonly { readonly tenantId: string; readonly projectId: string }[];
  /** Additional SQL condition. Can contain query parameters, whose values are in `parameters`. */
  readonly where?: string;
  readonly parameters?: Readonly<Record<string, unknown>>;
}

/** Returns one row for each stored event. The query uses the table's sorting key: tenant, project, and the time in the id. */
export function storedEvents<Row>(
  store: Pick<Store, 'query'>,
  columns: string,
  { ids, owners, where = '1', parameters }: EventFilter,
): Promise<Row[]> {
  return store.query<Row>(
    `SELECT ${columns} FROM events
     WHERE tenant_id IN {tenants:Array(UUID)} AND project_id IN {projects:Array(UUID)}
       AND id_at IN (SELECT fromUnixTimestamp64Milli(arrayJoin({millis:Array(Int64)}), 'UTC'))
       AND id IN {ids:Array(UUID)} AND ${where} LIMIT 1 BY project_id, id`,
    {
      ...parameters,
      tenants: [...new Set(owners.map(({ tenantId }) => tenantId))],
      projects: [...new Set(owners.map(({ projectId }) => projectId))],
      millis: [...new Set(ids.map(millisOf))],
      ids,
    },
  );
}

export interface LostRecords {
  readonly records: string;
  readonly rows: string;
  readonly ids: readonly string[];
  readonly firstMs: string | null;
  readonly lastMs: string | null;
}

/** Tables of a topic. `ids` and `at` are SQL expressions for the ids and the time of a row. */
interface RecordTables {
  readonly rows: { readonly table: string; readonly where: string };
  /** Table from which `ids` are read. The default is `rows`. */
  readonly newest?: { readonly table: string; readonly where: string };
  readonly ids: string;
  readonly at: string;
}

/** Counts the records of a partition that have stored rows at or above `offset`, and returns their ids. */
export async function lostRecordsOf(
  store: Pick<Store, 'query'>,
  source: { readonly logId: string; readonly partition: number },
  { rows, newest = rows, ids, at }: RecordTables,
  offset: number,
): Promise<LostRecords> {
  const where = `${OF_PARTITION} AND log_offset >= {offset:UInt64}`;
  const perShard = await store.query<LostRecords>(
    `SELECT uniqExact(log_offset) AS records, count() AS rows,
            (SELECT ${ids} FROM ${newest.table} WHERE ${where} AND ${newest.where}) AS ids,
            toUnixTimestamp64Milli(minOrNull(${at})) AS firstMs, toUnixTimestamp64Milli(maxOrNull(${at})) AS lastMs
     FROM ${rows.table} WHERE ${where} AND ${rows.where}`,
    { ...source, offset },
  );
  return perShard.reduce(sumOf, { records: '0', rows: '0', ids: [], firstMs: null, lastMs: null });
}

function sumOf(a: LostRecords, b: LostRecords): LostRecords {
  const times = [a.firstMs, a.lastMs, b.firstMs, b.lastMs].filter((ms) => ms !== null).map(Number);
  const text = (ms: number): string | null => (times.length === 0 ? null : String(ms));
  return {
    records: String(Number(a.records) + Number(b.records)),
    rows: String(Number(a.rows) + Number(b.rows)),
    ids: [...a.ids, ...b.ids],
    firstMs: text(Math.min(...times)),
    lastMs: text(Math.max(...times)),
  };
}

/**
 * Compares the events in ClickHouse with the accepted events in the ledger, for the 24 hours before `settledMs`. Returns the
 * number of missing and additional events. `ageSeconds` is the time from the oldest minute with a difference until `nowMs`. It
 * is 0 if there is no difference.
 * @param settledMs time before which ClickHouse must have all records
 */
export async function ledgerDifference(
  store: Pick<Store, 'query'>,
  settledMs: number,
  nowMs = settledMs,
): Promise<{ events: number; ageSeconds: number }> {
  const [row] = await store.query<LedgerDifferenceRow>(LEDGER_DIFFERENCE, { settledMs });
  const events = Number(row?.events ?? 0);
  return { events, ageSeconds: events === 0 ? 0 : Math.round(nowMs / 1000 - Number(row?.sinceS)) };
}
