-- What the log has lost: cuts of its partitions (an unclean election, a power loss, an older copy of its files) that the
-- projector came upon. The rows of the lost records stay where they are, visible, under a log_id of the cut's own, since
-- other records have their offsets now. Rows of this table are kept for ever.
CREATE TABLE truncations
(
    log_id            UUID COMMENT 'The log that was cut',
    topic             LowCardinality(String) COMMENT 'Without the deployment’s prefix',
    log_partition     UInt32 COMMENT 'Of the topic',
    orphan_id         UUID COMMENT 'The log_id that the rows of the lost records have since',
    first_offset      UInt64 COMMENT 'The first offset that is not known to hold what it held',
    end_offset        UInt64 COMMENT 'The first offset behind what is gone',
    last_record       String COMMENT 'The last record that had been written: its append id, or a digest of it',
    records           UInt64 COMMENT 'Lost records that rows came from',
    stored_rows       UInt64 COMMENT 'Their rows: events, sessions, reports or links',
    ids               Array(UUID) COMMENT 'Append ids of events; the ids of sessions and reports; of links those of their events',
    first_received_at Nullable(DateTime64(3, 'UTC')) COMMENT 'Of the rows, the earliest; NULL: there are none',
    last_received_at  Nullable(DateTime64(3, 'UTC')) COMMENT 'Of the rows, the latest; NULL: there are none',
    found_at          DateTime64(3, 'UTC') COMMENT 'When the projector came upon it',
    repaired          UInt8 COMMENT '0: the projector is at it; 1: the rows are out of the way, and it goes on'
)
ENGINE = ReplacingMergeTree(repaired)
ORDER BY (log_id, topic, log_partition, orphan_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
