/** The view `ledger` (`deploy/clickhouse/018-ledger.sql`) as services ask it. */

/** A minute is looked at once it has been over for so long: an append takes less, its tries included. */
export const LEDGER_GRACE_MS = 60_000;

/**
 * The events of the last day that are in no book's other side, and the begin of the first such minute, seconds since the
 * epoch. `settledMs`: everything that the log took before that time is projected.
 */
export const LEDGER_DIFFERENCE = `
  SELECT sum(missing_events + unlogged_events) AS events, toUnixTimestamp(min(minute)) AS sinceS
  FROM ledger
  WHERE minute >= toStartOfMinute(fromUnixTimestamp64Milli({settledMs:Int64}) - INTERVAL 1 DAY)
    AND minute + INTERVAL 1 MINUTE <= fromUnixTimestamp64Milli({settledMs:Int64} - ${LEDGER_GRACE_MS})
    AND missing_events + unlogged_events > 0`;

export interface LedgerDifferenceRow {
  readonly events: string;
  /** Of no event it says nothing. */
  readonly sinceS: number;
}
