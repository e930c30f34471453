-- What a session says of its build and its player. `metadata` is the text the game sent, byte for byte.
ALTER TABLE sessions
    ADD COLUMN IF NOT EXISTS version LowCardinality(Nullable(String)) COMMENT 'Of the build. NULL: no build was sent',
    ADD COLUMN IF NOT EXISTS platform LowCardinality(Nullable(String)) COMMENT 'Of the build, such as Web or Android',
    ADD COLUMN IF NOT EXISTS git_commit LowCardinality(Nullable(String)) COMMENT 'Of the build; NULL: not sent',
    ADD COLUMN IF NOT EXISTS channel LowCardinality(Nullable(String)) COMMENT 'Of the build: dev, qa, alpha, beta, staging or prod; NULL: not sent',
    ADD COLUMN IF NOT EXISTS player_external_id Nullable(String) COMMENT 'The player in the game’s own accounts. NULL: not sent, so that uniq() counts players only' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS player_device_id Nullable(String) COMMENT 'What the game says of the device; the Godot plugin sends its model, which many players share' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS metadata String DEFAULT '{}' COMMENT 'The JSON object that the game sent, byte for byte; {} where it sent none' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS content_sha256 Nullable(FixedString(32)) COMMENT 'Tells a repeated registration from one with other content',
    ADD INDEX IF NOT EXISTS by_player player_external_id TYPE bloom_filter(0.01) GRANULARITY 1
;
-- The builds that sessions were registered with. Of a build that was only named by its id nothing else is known.
CREATE VIEW builds AS
SELECT tenant_id, project_id, assumeNotNull(sessions.build_id) AS build_id, max(sessions.version) AS version,
       max(sessions.platform) AS platform, max(sessions.git_commit) AS git_commit, max(sessions.channel) AS channel,
       min(registered_at) AS first_seen, max(registered_at) AS last_seen, count() AS sessions
FROM sessions
WHERE sessions.build_id IS NOT NULL
GROUP BY tenant_id, project_id, sessions.build_id
;
-- The players that sessions were registered with, by the ids that the game gave them.
CREATE VIEW players AS
SELECT tenant_id, project_id, assumeNotNull(player_external_id) AS external_id,
       min(registered_at) AS first_seen, max(registered_at) AS last_seen, count() AS sessions
FROM sessions
WHERE player_external_id IS NOT NULL
GROUP BY tenant_id, project_id, player_external_id
