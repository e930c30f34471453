/**
 * Constants of the table `erased_events`. It contains the number of erased events of each record. Both ingest and the projector
 * write to the table.
 */

/** Part number for erased events that never became rows. The number is the largest value of the column. */
export const NEVER_WRITTEN = 2 ** 32 - 1;

/**
 * SQL expression for the number of erased events of a record. The expression uses the maximum, because a repeated projection
 * counts all parts again.
 */
export const ERASED_EVENT_COUNT = `greatest(sumIf(events, part != ${NEVER_WRITTEN}), maxIf(events, part = ${NEVER_WRITTEN}))`;
