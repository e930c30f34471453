-- Sessions whose rows have expired: an erasure of a player finds here which sessions were the player's. A record stays until the session has
-- neither rows nor records in the log. The players' ids are hashes with a key of the deployment, which the directory holds.
CREATE TABLE expired_sessions
(
    tenant_id        UUID COMMENT 'The studio',
    project_id       UUID COMMENT 'The game',
    session_id       UUID COMMENT 'The session',
    key_id           UInt32 COMMENT 'The key of the hashes; 0: the row expired unrecorded, so that the player is not known',
    external_id_hash FixedString(16) COMMENT 'Keyed hash of player_external_id; zeros: none',
    device_id_hash   FixedString(16) COMMENT 'Keyed hash of player_device_id; zeros: none',
    registered_at    DateTime64(3, 'UTC') COMMENT 'When the session was registered; 1970: not known' CODEC(Delta, ZSTD(1)),
    noted_at         DateTime('UTC') COMMENT 'When the last row of the session expired that is known of' CODEC(Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree(noted_at)
PARTITION BY toYYYYMM(noted_at)
ORDER BY (tenant_id, project_id, session_id, key_id, external_id_hash, device_id_hash)
SETTINGS index_granularity = 1024, fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Sessions whose rows have expired, while other data of them remains'
;
ALTER TABLE retention_marks
    COMMENT COLUMN what 'events, sessions, reports, links, uploads, or session_records: sessions received before are in expired_sessions'
