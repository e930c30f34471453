-- Sessions whose rows have expired, so that an erasure of a player finds the sessions of the player. A record stays until the
-- session has neither rows nor records in the log. The ids of players are hashed with a key of the deployment. The directory
-- contains this key.
CREATE TABLE expired_sessions
(
    tenant_id        UUID COMMENT 'Tenant',
    project_id       UUID COMMENT 'Project',
    session_id       UUID COMMENT 'Session id',
    key_id           UInt32 COMMENT 'Key of the hashes; 0: the row expired without a record, so the player is unknown',
    external_id_hash FixedString(16) COMMENT 'Keyed hash of player_external_id; zeros if there is none',
    device_id_hash   FixedString(16) COMMENT 'Keyed hash of player_device_id; zeros if there is none',
    registered_at    DateTime64(3, 'UTC') COMMENT 'Time of registration of the session; 1970 if it is unknown' CODEC(Delta, ZSTD(1)),
    noted_at         DateTime('UTC') COMMENT 'Latest time at which retention found the session or rows that name it' CODEC(Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree(noted_at)
PARTITION BY toYYYYMM(noted_at)
ORDER BY (tenant_id, project_id, session_id, key_id, external_id_hash, device_id_hash)
SETTINGS index_granularity = 1024, fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Sessions whose rows have expired, while other data of them remains'
;
ALTER TABLE retention_marks
    COMMENT COLUMN what 'events, sessions, reports, links, uploads, or session_records: expired sessions up to expired_before are in expired_sessions'
