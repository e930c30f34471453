/** Shared constants of the table `truncations` (`deploy/clickhouse/017-truncations.sql`). */

/**
 * Value of `last_record` in a row that ingest wrote. The column `ids` of this row contains appends that ingest had
 * acknowledged and that were not projected. The projector ignores the row, because no rows were moved for it.
 */
export const FOUND_BY_INGEST = 'acknowledged by an ingest';
