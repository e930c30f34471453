/** SQL query on the view `ledger` that compares the number of events in the log with the number of events in ClickHouse. */

/** After this delay, the counts of a minute are final. */
export const LEDGER_GRACE_MS = 60_000;

/** The parameter `settledMs` is the time up to which ClickHouse contains all records. */
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
