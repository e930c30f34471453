ALTER TABLE events
    MODIFY COMMENT 'One row per event. Filter by tenant_id, project_id and a time.'
;
ALTER TABLE sessions
    MODIFY COMMENT 'One row per session, from the first registration of the session id. Filter by project_id. If the clock of a device was wrong, the view game_sessions uses the time of registration as the start.'
;
ALTER TABLE quota_usage
    MODIFY COMMENT 'Number of events per tenant and UTC month of received_at.'
;
ALTER TABLE event_counts_by_minute
    MODIFY COMMENT 'Number of events per type and minute of received_at. Erased events are included in the numbers.'
;
ALTER TABLE reports
    MODIFY COMMENT 'One row per bug report, with the time of its retraction if the report was retracted. Filter by project_id.'
;
ALTER TABLE report_links
    MODIFY COMMENT 'One row per link between a report and an event, with the latest state of the link. Filter by project_id.'
;
ALTER TABLE events_with_reports
    MODIFY COMMENT 'One row per event, with the ids of its currently linked reports. Filter by tenant_id, project_id and a time. To find the events of one report, use report_links.'
;
ALTER TABLE game_sessions
    MODIFY COMMENT 'One row per session. The column started_at is never NULL and never more than 90 days before the registration. Filter by project_id.'
;
ALTER TABLE builds
    MODIFY COMMENT 'One row per build that has a registered session. Filter by project_id.'
;
ALTER TABLE players
    MODIFY COMMENT 'One row per player who has a registered session. Filter by project_id. To group players by their first day, use first_played.'
;
ALTER TABLE game_events
    MODIFY COMMENT 'One row per event, with the player and the build of its session. Filter by tenant_id, project_id and a time.'
;
ALTER TABLE report_groups
    MODIFY COMMENT 'Number of bug reports per fingerprint, without retracted reports. Filter by project_id.'
;
ALTER TABLE rejects
    MODIFY COMMENT 'Counts of rejected input, ignored input and warnings per minute. Rows are kept for 30 days. A process that is killed loses the counts of its last seconds.'
;
ALTER TABLE ledger
    MODIFY COMMENT 'Number of accepted, logged and projected events per tenant and minute. After the projector has processed all events of a minute, missing_events and unlogged_events of the minute are 0.'
;
ALTER TABLE audit
    MODIFY COMMENT 'Changes that operators made, and requests that the listener for operators rejected. One row can count several rejections. Rows are kept for one year.'
;
ALTER TABLE truncations
    MODIFY COMMENT 'Truncations of the log that the projector detected. Rows are kept forever.'
;
ALTER TABLE erased_events
    MODIFY COMMENT 'Number of erased events per record. The table contains no other data of erased events.'
;
ALTER TABLE retention_marks
    MODIFY COMMENT 'Progress of retention per project and kind of data.'
;
ALTER TABLE expired_sessions
    MODIFY COMMENT 'Sessions whose rows have expired. An erasure of a player finds expired sessions of the player in this table. A row is kept until ClickHouse has no other rows and the log has no records of the session.'
;
ALTER TABLE projected_offsets
    MODIFY COMMENT 'For each partition, ClickHouse has all rows below the offset next_offset. An incremental load reads this view first, and reads the rows of other tables in a second query. The view omits a partition whose offset is unknown. After a restore, every offset is unknown until the projector has compared the tables with the log. For each truncation, one row describes the records that the log lost.'
