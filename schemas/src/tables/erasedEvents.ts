/** The table `erased_events`: the number of erased events of a record. Ingest and the projector both write it. */

/** Part number for erased events that never became rows: the column's largest value. */
export const NEVER_WRITTEN = 2 ** 32 - 1;

/** SQL for the erased events of a record: the maximum, because a repeated projection counts all parts again. */
export const ERASED_EVENT_COUNT = `greatest(sumIf(events, part != ${NEVER_WRITTEN}), maxIf(events, part = ${NEVER_WRITTEN}))`;
