/** The table `erased_events`: how many events of a record were erased, told by two. */

/** The part of events that never became rows: all of the record that the erasure takes. The largest that the column holds. */
export const NEVER_WRITTEN = 2 ** 32 - 1;

/** Of the rows of one record and erasure. A projection that is made anew tells once more of what was hidden in parts before. */
export const ERASED_EVENT_COUNT = `greatest(sumIf(events, part != ${NEVER_WRITTEN}), maxIf(events, part = ${NEVER_WRITTEN}))`;
