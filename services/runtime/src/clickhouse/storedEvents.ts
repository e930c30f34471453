/** Reads stored events by id. Compares the number of stored events with the ledger, which counts accepted events. */
import { LEDGER_DIFFERENCE, type LedgerDifferenceRow } from '@questlog/schemas/tables/ledgerDifference';
import { millisOf } from '@questlog/schemas/uuid';
import type { Store } from './store.ts';

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
