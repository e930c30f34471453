/** Constants of the table `erased_events`, which contains the number of erased events of each log record. */

/** Value of the column `part` if the erased events were never in ClickHouse. */
export const NEVER_WRITTEN = 2 ** 32 - 1;

/** SQL expression for a record's number of erased events, correct even after a repeated projection. */
export const ERASED_EVENT_COUNT = `greatest(sumIf(events, part != ${NEVER_WRITTEN}), maxIf(events, part = ${NEVER_WRITTEN}))`;
