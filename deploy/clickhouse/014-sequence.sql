-- What the client counted itself: a number that is missing is an event that is still to come, or lost. The view below is
-- made anew because it keeps the columns that `events.*` had when it was made.
ALTER TABLE events
    ADD COLUMN IF NOT EXISTS sequence Nullable(UInt64) COMMENT 'The client’s own count of the session’s events, from 1; NULL: it does not count' CODEC(Delta, ZSTD(1))
;
-- Every event with the reports that it is linked to now. Filter by `project_id` and a time; for single events ask
-- `report_links`.
CREATE OR REPLACE VIEW events_with_reports AS
SELECT events.*, links.report_ids AS report_ids
FROM events
LEFT JOIN
(
    SELECT project_id, event_id, groupArray(report_id) AS report_ids
    FROM report_link_versions FINAL
    WHERE state = 'linked'
    GROUP BY project_id, event_id
) AS links ON links.project_id = events.project_id AND links.event_id = events.id
;
ALTER TABLE events_with_reports
    COMMENT COLUMN id 'UUIDv7; its time is received_at, or of a keyed request the time of the key',
    COMMENT COLUMN tenant_id 'The studio: who is billed',
    COMMENT COLUMN project_id 'The game; filter by it and by tenant_id, as the table is sorted by both',
    COMMENT COLUMN session_id 'The session that the event named; NULL: none (revision B)',
    COMMENT COLUMN build_id 'The build that the event named, or else its session’s; NULL: neither is known',
    COMMENT COLUMN event_type 'Any text of the game’s own',
    COMMENT COLUMN occurred_at 'When it happened, by the game’s clock, which may be wrong',
    COMMENT COLUMN received_at 'When it was accepted, by the server’s clock; the table is partitioned by its month',
    COMMENT COLUMN payload 'The JSON object that the game sent, byte for byte; read it with JSONExtract functions',
    COMMENT COLUMN over_quota 'Beyond the tenant’s soft quota of the month when it was accepted',
    COMMENT COLUMN log_id 'The log that the record lies in; a log that is made anew has another',
    COMMENT COLUMN log_partition 'Of the topic questlog.events.v1',
    COMMENT COLUMN log_offset 'Of the record, which holds the events of one request',
    COMMENT COLUMN log_index 'Position in the record',
    COMMENT COLUMN id_at 'The time inside the id: ClickHouse sorts UUIDs by their second half',
    COMMENT COLUMN sequence 'The client’s own count of the session’s events, from 1; NULL: it does not count',
    COMMENT COLUMN report_ids 'The reports that the event is linked to now'
