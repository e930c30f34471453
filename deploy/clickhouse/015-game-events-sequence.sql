-- Every event with its session's player and build. Filter by `tenant_id`, `project_id` and a time: the sessions of the
-- project are joined to the events that are left. With LIMIT BY the planner builds its hash table of the sessions, never
-- of the events, which are far more than it estimates.
CREATE OR REPLACE VIEW game_events AS
SELECT events.id AS id, events.tenant_id AS tenant_id, events.project_id AS project_id, events.session_id AS session_id,
       ifNull(events.build_id, session.build_id) AS build_id, events.event_type AS event_type,
       events.occurred_at AS occurred_at, events.received_at AS received_at, events.payload AS payload,
       events.over_quota AS over_quota, events.sequence AS sequence, session.player_external_id AS player_external_id,
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
    COMMENT COLUMN player_external_id 'Of the session; NULL: none was sent, so that uniq() counts players only',
    COMMENT COLUMN player_device_id 'Of the session',
    COMMENT COLUMN platform 'Of the session’s build, also where the event names another one',
    COMMENT COLUMN version 'Of the session’s build',
    COMMENT COLUMN git_commit 'Of the session’s build',
    COMMENT COLUMN channel 'Of the session’s build'
