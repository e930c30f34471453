-- Events that are a sample of their like, since an operator's switch left the others out: what a row stands for. The views
-- below are made anew with it; the quota and the ledger count what is stored.
ALTER TABLE events
    ADD COLUMN IF NOT EXISTS sample_rate Float64 DEFAULT 1 COMMENT 'The share of its like that was kept: it stands for 1 / sample_rate events' CODEC(ZSTD(1))
;
-- Rows of the version before are no sample.
ALTER TABLE event_counts_by_partition
    ADD COLUMN IF NOT EXISTS weight Float64 DEFAULT count COMMENT 'Of how many events these are the sample: the sum of 1 / sample_rate' CODEC(ZSTD(1)) AFTER count
;
CREATE OR REPLACE VIEW event_counts_by_minute AS
SELECT tenant_id, project_id, minute, event_type, sum(count) AS count, sum(weight) AS weighted_count
FROM event_counts_by_partition FINAL
GROUP BY tenant_id, project_id, minute, event_type
;
ALTER TABLE event_counts_by_minute
    COMMENT COLUMN tenant_id 'The studio',
    COMMENT COLUMN project_id 'The game',
    COMMENT COLUMN minute 'The minute of received_at',
    COMMENT COLUMN event_type 'Of the events',
    COMMENT COLUMN count 'Events of the minute and type',
    COMMENT COLUMN weighted_count 'Of how many events these are the sample; without samples the same as count'
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
    COMMENT COLUMN sample_rate 'The share of its like that was kept: it stands for 1 / sample_rate events',
    COMMENT COLUMN report_ids 'The reports that the event is linked to now'
;
-- Every event with its session's player and build. Filter by `tenant_id`, `project_id` and a time: the sessions of the
-- project are joined to the events that are left. With LIMIT BY the planner builds its hash table of the sessions, never
-- of the events, which are far more than it estimates.
CREATE OR REPLACE VIEW game_events AS
SELECT events.id AS id, events.tenant_id AS tenant_id, events.project_id AS project_id, events.session_id AS session_id,
       ifNull(events.build_id, session.build_id) AS build_id, events.event_type AS event_type,
       events.occurred_at AS occurred_at, events.received_at AS received_at, events.payload AS payload,
       events.over_quota AS over_quota, events.sequence AS sequence,
       events.sample_rate AS sample_rate, session.player_external_id AS player_external_id,
       session.player_device_id AS player_device_id, session.platform AS platform, session.version AS version,
       session.git_commit AS git_commit, session.channel AS channel
FROM events
LEFT ANY JOIN
(
    SELECT project_id, id, build_id, player_external_id, player_device_id, platform, version, git_commit, channel
    FROM sessions
    LIMIT 1 BY project_id, id
) AS session ON session.project_id = events.project_id AND session.id = events.session_id
;
ALTER TABLE game_events
    COMMENT COLUMN id 'As in events',
    COMMENT COLUMN tenant_id 'The studio; filter by it, as events are sorted by it',
    COMMENT COLUMN project_id 'The game; filter by it, as events are sorted by it',
    COMMENT COLUMN session_id 'The session that the event named; NULL: none',
    COMMENT COLUMN build_id 'The build that the event named, or else its session’s',
    COMMENT COLUMN event_type 'Any text of the game’s own',
    COMMENT COLUMN occurred_at 'When it happened, by the game’s clock, which may be wrong',
    COMMENT COLUMN received_at 'When it was accepted, by the server’s clock; filter by it to read less',
    COMMENT COLUMN payload 'The JSON object that the game sent, byte for byte',
    COMMENT COLUMN over_quota 'Beyond the tenant’s soft quota of the month when it was accepted',
    COMMENT COLUMN sequence 'The client’s own count of the session’s events, from 1; NULL: it does not count',
    COMMENT COLUMN sample_rate 'The share of its like that was kept: it stands for 1 / sample_rate events',
    COMMENT COLUMN player_external_id 'Of the session; NULL: none was sent, so that uniq() counts players only',
    COMMENT COLUMN player_device_id 'Of the session',
    COMMENT COLUMN platform 'Of the session’s build, also where the event names another one',
    COMMENT COLUMN version 'Of the session’s build',
    COMMENT COLUMN git_commit 'Of the session’s build',
    COMMENT COLUMN channel 'Of the session’s build'
;
-- The books: of each tenant and minute what came in, what the log took, and what became of it. `missing_events` were taken
-- by the log and are neither projected, repeated nor dead; `unlogged_events` were accepted and not
-- sampled out, and the log did not take them. Both are 0 once the projector has passed the minute. What ingests count is kept
-- for 90 days.
CREATE OR REPLACE VIEW ledger AS
SELECT tenant_id, minute, sumMap(outcomes_of_row) AS outcomes, sum(accepted) AS accepted_events, sum(sampled) AS sampled_events, sum(logged) AS logged_events,
       sum(uncertain) AS uncertain_events, sum(projected) AS projected_events, sum(repeated) AS repeated_events,
       sum(dead) AS dead_events, sum(dead_of_row) AS dead_records,
       if(sum(unreadable) > 0, 0, greatest(0, toInt64(logged_events) - toInt64(projected_events) - toInt64(repeated_events) - toInt64(dead_events))) AS missing_events,
       greatest(0, toInt64(accepted_events) - toInt64(sampled_events) - toInt64(logged_events)) AS unlogged_events
FROM
(
    SELECT tenant_id, minute,
           if(what IN ('logged', 'uncertain', 'sampled'), CAST(map(), 'Map(String, UInt64)'), map(toString(what), count)) AS outcomes_of_row,
           if(what = 'accepted', events, 0) AS accepted, if(what = 'sampled', events, 0) AS sampled, if(what = 'logged', events, 0) AS logged,
           if(what = 'uncertain', events, 0) AS uncertain,
           0 AS projected, 0 AS repeated, 0 AS dead, 0 AS dead_of_row, 0 AS unreadable
    FROM received_by_process FINAL
    UNION ALL
    SELECT tenant_id, minute, CAST(map(), 'Map(String, UInt64)') AS outcomes_of_row, 0 AS accepted, 0 AS sampled, 0 AS logged, 0 AS uncertain,
           count AS projected, 0 AS repeated, 0 AS dead, 0 AS dead_of_row, 0 AS unreadable
    FROM event_counts_by_partition FINAL
    UNION ALL
    SELECT tenant_id, minute, CAST(map(), 'Map(String, UInt64)') AS outcomes_of_row, 0 AS accepted, 0 AS sampled, 0 AS logged, 0 AS uncertain,
           0 AS projected, if(what = 'repeated_events', count, 0) AS repeated, if(what = 'dead_events', count, 0) AS dead,
           if(what = 'dead_records', count, 0) AS dead_of_row, if(what = 'unreadable_records', count, 0) AS unreadable
    FROM left_out_by_partition FINAL
)
GROUP BY tenant_id, minute
;
ALTER TABLE ledger
    COMMENT COLUMN tenant_id 'The studio; zeros: nobody knows',
    COMMENT COLUMN minute 'Of received_at; of requests without events, of the answer',
    COMMENT COLUMN outcomes 'Requests to /v1/ingest by outcome: accepted, replayed, or a problem code',
    COMMENT COLUMN accepted_events 'Answered with a 2xx',
    COMMENT COLUMN sampled_events 'Of the accepted, those that a switch left out of its sample',
    COMMENT COLUMN logged_events 'The log confirmed them',
    COMMENT COLUMN uncertain_events 'The log did not answer, and may have them all the same',
    COMMENT COLUMN projected_events 'Counted in event_counts_by_minute',
    COMMENT COLUMN repeated_events 'Appended again, and dropped',
    COMMENT COLUMN dead_events 'In the dead letters, as far as their records can be read',
    COMMENT COLUMN dead_records 'In the dead letters',
    COMMENT COLUMN missing_events 'Logged, and neither projected, repeated nor dead: not yet, or lost',
    COMMENT COLUMN unlogged_events 'Accepted, not sampled out, and not confirmed by the log'
