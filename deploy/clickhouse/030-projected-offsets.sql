-- The offset up to which the projector has written each partition of a log, at most one row per second. A row is written after
-- the projector's commit. The newest row of a partition counts. `generation` grows with each owner and after each repair,
-- because an offset of an earlier owner is meaningless after the log has lost records. A row names the table that it
-- describes, because a restored table has another UUID.
CREATE TABLE projected_offset_versions
(
    log_id           UUID COMMENT 'Id of the log; for lost records, the log_id that their rows have since the truncation',
    topic            LowCardinality(String) COMMENT 'Topic, without the prefix of the deployment',
    partition        UInt32 COMMENT 'Partition of the topic',
    table_name       LowCardinality(String) COMMENT 'Table with the rows of the topic',
    table_uuid       UUID COMMENT 'UUID of the table when the rows were written',
    generation       UInt32 COMMENT 'Grows with each owner of the partition and after each repair',
    next_offset      UInt64 COMMENT 'Offset below which the rows of every record exist',
    truncated_log_id Nullable(UUID) COMMENT 'Id of the log that has lost the records; NULL if log_id is the id of a log',
    truncated_from   Nullable(UInt64) COMMENT 'First lost offset of that log; NULL if log_id is the id of a log',
    version          UInt64 MATERIALIZED generation * 1099511627776 + next_offset COMMENT 'Makes a merge keep the newest row'
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (log_id, topic, partition)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Table behind projected_offsets'
;
-- The offset below which every row of a partition exists, for loads that read only what is new. Read it in a query of its own
-- before you read the rows. A partition is absent while its offset is unknown: after a restore, until the projector has
-- compared the tables with the log. The lost records of each truncation have a separate row.
CREATE VIEW projected_offsets AS
SELECT log_id, topic, partition, next_offset, truncated_log_id, truncated_from
FROM projected_offset_versions FINAL
WHERE (table_name, table_uuid) IN (SELECT name, uuid FROM system.tables)
COMMENT 'The offset below which every row of a partition exists'
;
ALTER TABLE projected_offsets
    COMMENT COLUMN log_id 'Id of the log; for lost records, the log_id that their rows have since the truncation',
    COMMENT COLUMN topic 'Topic, without the prefix of the deployment',
    COMMENT COLUMN partition 'log_partition of the rows',
    COMMENT COLUMN next_offset 'Offset below which the rows of every record exist',
    COMMENT COLUMN truncated_log_id 'Id of the log that has lost the records; NULL if log_id is the id of a log',
    COMMENT COLUMN truncated_from 'First lost offset of that log; NULL if log_id is the id of a log'
