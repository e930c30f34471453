/** Reads events by id, and the difference between the ledger and ClickHouse. */
import { LEDGER_DIFFERENCE, type LedgerDifferenceRow } from '@questlog/schemas/tables/ledgerDifference';
import { millisOf } from '@questlog/schemas/uuid';
import type { Store } from './store.ts';

export interface EventFilter {
  /** At most `MAX_IDS_PER_QUERY` ids. */
  readonly ids: readonly string[];
  /** Tenants and projects to which the events can belong. */
  readonly owners: readonly { readonly tenantId: string; readonly projectId: string }[];
  /** SQL condition that uses `parameters`. */
  readonly where?: string;
  readonly parameters?: Readonly<Record<string, unknown>>;
}

/** Returns one row for each stored event. The query uses the sorting key of the table: tenant, project, and the time of the id. */
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

/**
 * Returns the ledger's difference in the day before `settledMs`, and the age of its oldest minute at `nowMs` (0 without a
 * difference).
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
