/** Shared constants of the table `truncations` (`deploy/clickhouse/017-truncations.sql`). */

/** Value of the column `last_record` for truncations that ingest found. The projector ignores the rows with this value. */
export const FOUND_BY_INGEST = 'acknowledged by an ingest';
