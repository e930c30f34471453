-- The sessions with a start that is never NULL and never far from the server's clock. Filter by `project_id`. `started_at`
-- is the time that the game sent if it lies in the 90 days before `registered_at`, otherwise `registered_at`. A session
-- cannot start after its registration, and a clock that is more than 90 days behind (1970, a factory date) is wrong. If a
-- device was offline for longer, the time of registration counts. `sessions` has the time as sent.
CREATE OR REPLACE VIEW game_sessions AS
WITH if(sessions.started_at BETWEEN sessions.registered_at - INTERVAL 90 DAY AND sessions.registered_at,
        assumeNotNull(sessions.started_at), sessions.registered_at) AS bounded_start
SELECT tenant_id, project_id, id, build_id, bounded_start AS started_at, toDate(bounded_start) AS started_on, registered_at,
       player_external_id, player_device_id, version, platform, git_commit, channel, metadata
FROM sessions
;
-- The players that sessions were registered with, by the ids that the game gave them. Filter by `project_id`.
-- `first_played` and `last_played` are by the players' own clocks within the bounds of `game_sessions`; `first_seen` and
-- `last_seen` are by the server's clock, which is days later for players who were offline.
CREATE OR REPLACE VIEW players AS
SELECT tenant_id, project_id, assumeNotNull(player_external_id) AS external_id,
       min(started_at) AS first_played, max(started_at) AS last_played,
       min(registered_at) AS first_seen, max(registered_at) AS last_seen, count() AS sessions
FROM game_sessions
WHERE player_external_id IS NOT NULL
GROUP BY tenant_id, project_id, player_external_id
;
-- Every event with its session's player and build. Filter by `tenant_id`, `project_id` and a time. The hash table of the
-- join contains the sessions of the project, and spills to disk above 24 MiB. `partial_merge` is listed although it is
-- not used: ClickHouse never swaps the sides of a LEFT ANY JOIN that this algorithm may run. Without it the planner
-- builds the hash table on the events, because it estimates them 100 times too low (measured on 26.7).
CREATE OR REPLACE VIEW game_events AS
SELECT events.id AS id, events.tenant_id AS tenant_id, events.project_id AS project_id, events.session_id AS session_id,
       ifNull(events.build_id, session.build_id) AS build_id, events.event_type AS event_type,
       events.occurred_at AS occurred_at, toDate32(events.occurred_at) AS occurred_on, events.received_at AS received_at,
       events.payload AS payload, events.over_quota AS over_quota, events.sequence AS sequence,
       events.sample_rate AS sample_rate, session.player_external_id AS player_external_id,
       session.player_device_id AS player_device_id, session.platform AS platform, session.version AS version,
       session.git_commit AS git_commit, session.channel AS channel
FROM events
LEFT ANY JOIN sessions AS session ON session.project_id = events.project_id AND session.id = events.session_id
SETTINGS join_algorithm = 'grace_hash,partial_merge', max_bytes_in_join = 25165824
;
-- Every event with the reports that it is linked to now. Filter by `tenant_id`, `project_id` and a time; for single events
-- ask `report_links`. The join is that of `game_events`.
CREATE OR REPLACE VIEW events_with_reports AS
SELECT events.*, toDate32(events.occurred_at) AS occurred_on, links.report_ids AS report_ids
FROM events
LEFT ANY JOIN
(
    SELECT project_id, event_id, groupArray(report_id) AS report_ids
    FROM report_link_versions FINAL
    WHERE state = 'linked'
    GROUP BY project_id, event_id
) AS links ON links.project_id = events.project_id AND links.event_id = events.id
SETTINGS join_algorithm = 'grace_hash,partial_merge', max_bytes_in_join = 25165824
;
-- The problems of a project: its reports by their fingerprint, without retracted reports. Filter by `project_id`. Players
-- are counted by the ids that their sessions were registered with. The join is that of `game_events`.
CREATE OR REPLACE VIEW report_groups AS
SELECT reports.tenant_id AS tenant_id, reports.project_id AS project_id, reports.fingerprint AS fingerprint,
       argMax(reports.title, (reports.received_at, reports.id)) AS title, count() AS occurrences,
       min(reports.received_at) AS first_seen, max(reports.received_at) AS last_seen,
       uniqExact(reports.build_id) AS builds, uniqExact(players.external_id) AS players
FROM reports
LEFT ANY JOIN
(
    SELECT project_id, id AS session_id, any(player_external_id) AS external_id
    FROM sessions
    WHERE (project_id, id) IN
          (SELECT project_id, assumeNotNull(report_versions.session_id) FROM report_versions
           WHERE report_versions.session_id IS NOT NULL AND fingerprint != '')
    GROUP BY project_id, id
) AS players ON players.project_id = reports.project_id AND players.session_id = reports.session_id
WHERE reports.fingerprint != '' AND reports.retracted_at IS NULL
GROUP BY reports.tenant_id, reports.project_id, reports.fingerprint
SETTINGS join_algorithm = 'grace_hash,partial_merge', max_bytes_in_join = 25165824
