/** Shared constants of the table `truncations` (`deploy/clickhouse/017-truncations.sql`). */

/** Value of `last_record` in rows that ingest wrote about acknowledged appends. The projector ignores these rows. */
export const FOUND_BY_INGEST = 'acknowledged by an ingest';
