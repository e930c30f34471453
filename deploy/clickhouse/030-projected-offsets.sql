-- How far the projector has written each partition of a log, at most one row a second. A row is written after the projector's
-- commit. The newest row of a partition counts: `generation` grows with each owner, and after each repair, because an offset of
-- an earlier owner says nothing once the log has lost records. A row names the table that it describes, because a restored table
-- has another UUID.
CREATE TABLE projected_offset_versions
(
    log_id           UUID COMMENT 'The log; of rows of lost records the log_id that they have since the truncation',
    topic            LowCardinality(String) COMMENT 'Without the prefix of the deployment',
    partition        UInt32 COMMENT 'Of the topic',
    table_name       LowCardinality(String) COMMENT 'The table that has the rows of the topic',
    table_uuid       UUID COMMENT 'The UUID of that table when its rows were written',
    generation       UInt32 COMMENT 'Grows with each owner of the partition and after each repair',
    next_offset      UInt64 COMMENT 'The rows of every record below this offset exist',
    truncated_log_id Nullable(UUID) COMMENT 'The log that has lost these records; NULL: log_id is a log',
    truncated_from   Nullable(UInt64) COMMENT 'The first offset that this log has lost; NULL: log_id is a log',
    version          UInt64 MATERIALIZED generation * 1099511627776 + next_offset COMMENT 'Makes a merge keep the newest'
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (log_id, topic, partition)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Behind the view projected_offsets'
;
-- The offset below which every row of a partition exists, for loads that read only what is new. Read it in a query of its own
-- before you read the rows. A partition is absent while the offset is not known: after a restore, until the projector has
-- compared the tables with the log. The lost records of each truncation have a row of their own.
CREATE VIEW projected_offsets AS
SELECT log_id, topic, partition, next_offset, truncated_log_id, truncated_from
FROM projected_offset_versions FINAL
WHERE (table_name, table_uuid) IN (SELECT name, uuid FROM system.tables)
COMMENT 'The offset below which every row of a partition exists'
;
ALTER TABLE projected_offsets
    COMMENT COLUMN log_id 'The log; of rows of lost records the log_id that they have since the truncation',
    COMMENT COLUMN topic 'Without the prefix of the deployment',
    COMMENT COLUMN partition 'log_partition of the rows',
    COMMENT COLUMN next_offset 'The rows of every record below this offset exist',
    COMMENT COLUMN truncated_log_id 'The log that has lost these records; NULL: log_id is a log',
    COMMENT COLUMN truncated_from 'The first offset that this log has lost; NULL: log_id is a log'
