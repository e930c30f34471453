/** Constants of the table `erased_events`, which contains the number of erased events of each log record. */

/** Value of the column `part` for erased events that the projector never wrote to ClickHouse. */
export const NEVER_WRITTEN = 2 ** 32 - 1;

/**
 * SQL expression for the number of erased events of a record. A block that was projected twice has two counts of the events
 * that the projector never wrote. The expression uses the higher count.
 */
export const ERASED_EVENT_COUNT = `greatest(sumIf(events, part != ${NEVER_WRITTEN}), maxIf(events, part = ${NEVER_WRITTEN}))`;
