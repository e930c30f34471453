/** The query of services on the view `ledger` (`deploy/clickhouse/018-ledger.sql`). */

/** Time after the end of a minute until the minute is checked. An append with all its retries takes less. */
export const LEDGER_GRACE_MS = 60_000;

/**
 * SQL for the ledger difference of the last day, and the start of the first minute with a difference, in seconds
 * since the epoch. Parameter `settledMs`: everything that the log received before this time is projected.
 */
export const LEDGER_DIFFERENCE = `
  SELECT sum(missing_events + unlogged_events) AS events, toUnixTimestamp(min(minute)) AS sinceS
  FROM ledger
  WHERE minute >= toStartOfMinute(fromUnixTimestamp64Milli({settledMs:Int64}) - INTERVAL 1 DAY)
    AND minute + INTERVAL 1 MINUTE <= fromUnixTimestamp64Milli({settledMs:Int64} - ${LEDGER_GRACE_MS})
    AND missing_events + unlogged_events > 0`;

export interface LedgerDifferenceRow {
  readonly events: string;
  readonly sinceS: number;
}
