CREATE TABLE retention_marks
(
    project_id     UUID COMMENT 'The game',
    what           LowCardinality(String) COMMENT 'events, sessions, reports, links or uploads',
    expired_before DateTime64(3, 'UTC') COMMENT 'What was received before is past its days: it is gone, or about to go',
    is_done        UInt8 COMMENT '1: nothing of it was left',
    version        UInt64 MATERIALIZED 2 * toUnixTimestamp64Milli(expired_before) + is_done COMMENT 'Makes a merge keep the latest'
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (project_id, what)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
