/** The table `erased_events`: the number of erased events of a record. Ingest and the projector both write it. */

/**
 * Part number for events that never became rows: all events of the record that the erasure covers. The largest value
 * of the column.
 */
export const NEVER_WRITTEN = 2 ** 32 - 1;

/**
 * SQL for the number of erased events of one record and erasure. A repeated projection counts events again that
 * ingest has already counted in parts, so the maximum of both counts is correct.
 */
export const ERASED_EVENT_COUNT = `greatest(sumIf(events, part != ${NEVER_WRITTEN}), maxIf(events, part = ${NEVER_WRITTEN}))`;
