/** Serves GET /admin/ledger: the ledger entries of a time range, and the number of events that are missing in the last day. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import { ledgerDifference } from '@questlog/runtime/clickhouse/storedEvents';
import type { Clock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import type { LedgerAnswer, LedgerMinute } from '@questlog/schemas/http/ledger';
import { inTimeRange, type TimeRange } from './storedRows.ts';

const MAX_MINUTES = 10_000;
/** Maximum wait for the projector. Under load, the projector is one or two seconds behind the log. */
const PROJECTION_WAIT_MS = 3_000;

export interface LedgerDeps {
  readonly store: Store;
  readonly projection: { caughtUp(partitions: 'all', limitMs?: number): Promise<void> };
  readonly clock: Clock;
}

export async function readLedger(
  { store, projection, clock }: LedgerDeps,
  times: TimeRange,
): Promise<LedgerAnswer> {
  const requestedMs = clock.now();
  const settledMs = await projection.caughtUp('all', PROJECTION_WAIT_MS).then(
    () => requestedMs,
    (error: unknown) => {
      if (error instanceof Unavailable) return undefined;
      throw error;
    },
  );
  const rows = await store.query<LedgerMinute>(
    `SELECT tenant_id AS tenantId, formatDateTime(minute, '%Y-%m-%dT%H:%i:00Z') AS minute, outcomes,
       accepted_events AS acceptedEvents, sampled_events AS sampledEvents, logged_events AS loggedEvents, uncertain_events AS uncertainEvents,
       projected_events AS projectedEvents, repeated_events AS repeatedEvents, dead_events AS deadEvents,
       dead_records AS deadRecords, missing_events AS missingEvents, unlogged_events AS unloggedEvents
     FROM ledger WHERE ${inTimeRange(times, 'ledger.minute')}
     ORDER BY ledger.minute DESC, tenant_id LIMIT ${MAX_MINUTES + 1}`,
    { ...times },
    { output_format_json_quote_64bit_integers: 0 },
  );
  return {
    settledUntil: settledMs === undefined ? null : new Date(settledMs).toISOString(),
    difference: settledMs === undefined ? null : await ledgerDifference(store, settledMs),
    minutes: rows.slice(0, MAX_MINUTES),
    isWhole: rows.length <= MAX_MINUTES,
  };
}
