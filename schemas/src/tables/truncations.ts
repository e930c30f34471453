/** Shared constants of the table `truncations` (`deploy/clickhouse/017-truncations.sql`). */

/**
 * Value of `last_record` in rows that ingest inserts if the log lost acknowledged appends. The projector ignores these rows.
 */
export const FOUND_BY_INGEST = 'acknowledged by an ingest';
