-- What each column means, where any client shows it.
ALTER TABLE events
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
    COMMENT COLUMN id_at 'The time inside the id: ClickHouse sorts UUIDs by their second half'
;
ALTER TABLE sessions
    COMMENT COLUMN tenant_id 'The studio: who is billed',
    COMMENT COLUMN project_id 'The game; filter by it, as the table is sorted by it',
    COMMENT COLUMN id 'Unique inside the project',
    COMMENT COLUMN build_id 'Made from project, version, platform, commit and channel; or the id that was sent where no build was',
    COMMENT COLUMN started_at 'As sent, by the game’s clock; NULL: registered_at counts',
    COMMENT COLUMN registered_at 'When it was registered, by the server’s clock',
    COMMENT COLUMN lane 'Decides the partition of the session’s events',
    COMMENT COLUMN log_id 'The log that the record lies in',
    COMMENT COLUMN log_partition 'Of the topic questlog.sessions.v1',
    COMMENT COLUMN log_offset 'Of the record; the first of an id counts',
    COMMENT COLUMN firstness 'Makes a merge keep the first record of an id'
;
ALTER TABLE builds
    COMMENT COLUMN tenant_id 'The studio',
    COMMENT COLUMN project_id 'The game',
    COMMENT COLUMN build_id 'As in sessions and events',
    COMMENT COLUMN version 'NULL: no session told more than the id',
    COMMENT COLUMN platform 'Such as Web or Android',
    COMMENT COLUMN git_commit 'NULL: not sent',
    COMMENT COLUMN channel 'dev, qa, alpha, beta, staging or prod; NULL: not sent',
    COMMENT COLUMN first_seen 'When its first session was registered',
    COMMENT COLUMN last_seen 'When its latest session was registered',
    COMMENT COLUMN sessions 'How many were registered with it'
;
ALTER TABLE players
    COMMENT COLUMN tenant_id 'The studio',
    COMMENT COLUMN project_id 'The game',
    COMMENT COLUMN external_id 'As player_external_id in sessions',
    COMMENT COLUMN first_seen 'When the player’s first session was registered',
    COMMENT COLUMN last_seen 'When the player’s latest session was registered',
    COMMENT COLUMN sessions 'How many the player has had'
;
ALTER TABLE quota_usage_by_partition
    COMMENT COLUMN tenant_id 'The studio',
    COMMENT COLUMN month 'The UTC month of received_at, its first day',
    COMMENT COLUMN log_id 'The log that was counted',
    COMMENT COLUMN log_partition 'The partition that was counted',
    COMMENT COLUMN used 'Events up to last_offset',
    COMMENT COLUMN last_offset 'The last record that is counted'
;
ALTER TABLE quota_usage
    COMMENT COLUMN tenant_id 'The studio',
    COMMENT COLUMN month 'The UTC month of received_at, its first day',
    COMMENT COLUMN used 'Events of the month'
;
ALTER TABLE event_counts_by_partition
    COMMENT COLUMN tenant_id 'The studio',
    COMMENT COLUMN project_id 'The game',
    COMMENT COLUMN minute 'The minute of received_at',
    COMMENT COLUMN event_type 'Of the events',
    COMMENT COLUMN log_id 'The log that was counted',
    COMMENT COLUMN log_partition 'The partition that was counted',
    COMMENT COLUMN count 'Events up to last_offset',
    COMMENT COLUMN last_offset 'The last record that is counted'
;
ALTER TABLE event_counts_by_minute
    COMMENT COLUMN tenant_id 'The studio',
    COMMENT COLUMN project_id 'The game',
    COMMENT COLUMN minute 'The minute of received_at',
    COMMENT COLUMN event_type 'Of the events',
    COMMENT COLUMN count 'Events of the minute and type'
;
ALTER TABLE appends
    COMMENT COLUMN append_id 'Of one record of events; the same for a repeat of it',
    COMMENT COLUMN tenant_id 'The studio',
    COMMENT COLUMN project_id 'The game',
    COMMENT COLUMN idempotency_key 'Of the request; NULL: it had none',
    COMMENT COLUMN body_sha256 'Of the body of a request with a key',
    COMMENT COLUMN received_at 'When it was accepted, by the server’s clock',
    COMMENT COLUMN events 'How many the record holds',
    COMMENT COLUMN log_id 'The log that the record lies in',
    COMMENT COLUMN log_partition 'Of the topic questlog.events.v1',
    COMMENT COLUMN log_offset 'Of the record'
;
ALTER TABLE report_versions
    COMMENT COLUMN tenant_id 'The studio',
    COMMENT COLUMN project_id 'The game; filter by it, as the table is sorted by it',
    COMMENT COLUMN id 'Unique inside the project',
    COMMENT COLUMN session_id 'Whose events belong to the report; NULL: none',
    COMMENT COLUMN session_lane 'Decides the partition of the session’s events',
    COMMENT COLUMN occurred_at 'The report’s time: as sent, or else received_at',
    COMMENT COLUMN received_at 'When it was filed, by the server’s clock',
    COMMENT COLUMN window_before_ms 'How long before the report an event of its session belongs to it',
    COMMENT COLUMN window_after_ms 'How long after it',
    COMMENT COLUMN from_micros 'Begin of the window, microseconds since the epoch, inside',
    COMMENT COLUMN to_micros 'End of the window, microseconds since the epoch, inside',
    COMMENT COLUMN inline_event_ids 'Events that came in the report',
    COMMENT COLUMN event_ids 'Events that the report named',
    COMMENT COLUMN request_sha256 'Tells the same request again from another one',
    COMMENT COLUMN retracted_at 'NULL: it stands',
    COMMENT COLUMN version 'The larger row replaces the smaller one',
    COMMENT COLUMN log_id 'The log that the record lies in',
    COMMENT COLUMN log_partition 'Of the topic questlog.report-links.v1',
    COMMENT COLUMN log_offset 'Of the record'
;
ALTER TABLE report_link_versions
    COMMENT COLUMN tenant_id 'The studio',
    COMMENT COLUMN project_id 'The game; filter by it, as the table is sorted by it',
    COMMENT COLUMN report_id 'Of the report',
    COMMENT COLUMN event_id 'Of the event, which may not have come yet',
    COMMENT COLUMN state 'pending: awaited; unresolved: given up; linked; retracted with its report',
    COMMENT COLUMN source 'inline: came in the report; named: by its id; session: in the report’s window',
    COMMENT COLUMN version 'The larger row replaces the smaller one',
    COMMENT COLUMN changed_at 'When it came into this state, by the server’s clock',
    COMMENT COLUMN log_id 'The log that the record lies in',
    COMMENT COLUMN log_partition 'Of the topic questlog.linked-events.v1 or questlog.report-links.v1',
    COMMENT COLUMN log_offset 'Of the record'
;
ALTER TABLE report_links
    COMMENT COLUMN tenant_id 'The studio',
    COMMENT COLUMN project_id 'The game',
    COMMENT COLUMN report_id 'Of the report',
    COMMENT COLUMN event_id 'Of the event, which may not have come yet',
    COMMENT COLUMN state 'pending: awaited; unresolved: given up; linked; retracted with its report',
    COMMENT COLUMN source 'inline: came in the report; named: by its id; session: in the report’s window',
    COMMENT COLUMN changed_at 'When it came into this state, by the server’s clock',
    COMMENT COLUMN log_id 'The log that the record lies in',
    COMMENT COLUMN log_partition 'Of the topic that the record lies in',
    COMMENT COLUMN log_offset 'Of the record'
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
    COMMENT COLUMN report_ids 'The reports that the event is linked to now'
;
ALTER TABLE reports
    COMMENT COLUMN tenant_id 'The studio',
    COMMENT COLUMN project_id 'The game; filter by it, as the table is sorted by it',
    COMMENT COLUMN id 'Unique inside the project',
    COMMENT COLUMN session_id 'Whose events belong to the report; NULL: none',
    COMMENT COLUMN session_lane 'Decides the partition of the session’s events',
    COMMENT COLUMN occurred_at 'The report’s time: as sent, or else received_at',
    COMMENT COLUMN received_at 'When it was filed, by the server’s clock',
    COMMENT COLUMN window_before_ms 'How long before the report an event of its session belongs to it',
    COMMENT COLUMN window_after_ms 'How long after it',
    COMMENT COLUMN from_micros 'Begin of the window, microseconds since the epoch, inside',
    COMMENT COLUMN to_micros 'End of the window, microseconds since the epoch, inside',
    COMMENT COLUMN inline_event_ids 'Events that came in the report',
    COMMENT COLUMN event_ids 'Events that the report named',
    COMMENT COLUMN request_sha256 'Tells the same request again from another one',
    COMMENT COLUMN retracted_at 'NULL: it stands',
    COMMENT COLUMN log_id 'The log that the record lies in',
    COMMENT COLUMN log_partition 'Of the topic questlog.report-links.v1',
    COMMENT COLUMN log_offset 'Of the record'
