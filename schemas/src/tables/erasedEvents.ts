/** Constants of the table `erased_events`, which contains the number of erased events of each log record. */

/** Value of the column `part` for erased events that the projector never wrote to ClickHouse. */
export const NEVER_WRITTEN = 2 ** 32 - 1;

/**
 * SQL expression for the number of a record's erased events. After a block was projected twice, a record can have two counts of
 * events that the projector omitted. The expression uses the higher count.
 */
export const ERASED_EVENT_COUNT = `greatest(sumIf(events, part != ${NEVER_WRITTEN}), maxIf(events, part = ${NEVER_WRITTEN}))`;
