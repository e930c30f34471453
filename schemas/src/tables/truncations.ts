/** What the services have to agree on about the table `truncations` (`deploy/clickhouse/017-truncations.sql`). */

/**
 * Stands in `last_record` of a row that an ingest has written: `ids` are of appends that it had acknowledged and that were not
 * projected. Such a row has no rows of others behind it, and the projector passes it by.
 */
export const FOUND_BY_INGEST = 'acknowledged by an ingest';
