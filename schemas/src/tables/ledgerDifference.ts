/** SQL query for the ledger difference, from the view `ledger` (`deploy/clickhouse/018-ledger.sql`). */

/** Time between the end of a minute and the comparison of its ledger. An append with all of its retries takes less time. */
export const LEDGER_GRACE_MS = 60_000;

/** SQL query for the ledger difference of the last day. All records up to the time `settledMs` must already be projected. */
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
