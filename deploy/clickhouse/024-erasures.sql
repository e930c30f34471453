-- Events that were erased, by the record that brought them: `event_counts_by_minute` and the quota keep counting them, and
-- `events` has them no longer. Rows are absolute: the largest of a record, erasure and part counts, so that one may be
-- written again. No row says anything of what an event was.
CREATE TABLE erased_events
(
    erasure_id    UUID COMMENT 'As in /admin/erasures',
    part          UInt32 COMMENT 'Of the erasure: one of many sessions is done in parts, and a record may have events of several',
    tenant_id     UUID COMMENT 'The studio',
    received_at   DateTime64(3, 'UTC') COMMENT 'Of the record' CODEC(Delta, ZSTD(1)),
    log_id        UUID COMMENT 'The log that the record lies in' CODEC(ZSTD(1)),
    log_partition UInt32 COMMENT 'Of the topic questlog.events.v1',
    log_offset    UInt64 COMMENT 'Of the record' CODEC(Delta, ZSTD(1)),
    events        UInt32 COMMENT 'Of the record that were erased'
)
ENGINE = ReplacingMergeTree(events)
PARTITION BY toYYYYMM(received_at)
ORDER BY (tenant_id, received_at, log_id, log_partition, log_offset, erasure_id, part)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
