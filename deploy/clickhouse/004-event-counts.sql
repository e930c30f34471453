-- Events per minute (of `received_at`) and type; absolute rows, as in quota_usage_by_partition.
CREATE TABLE event_counts_by_partition
(
    tenant_id     UUID,
    project_id    UUID,
    minute        DateTime('UTC') CODEC(Delta, ZSTD(1)),
    event_type    String CODEC(ZSTD(1)),
    log_id        UUID CODEC(ZSTD(1)),
    log_partition UInt32,
    count         UInt64,
    last_offset   UInt64
)
ENGINE = ReplacingMergeTree(last_offset)
PARTITION BY toYYYYMM(minute)
ORDER BY (tenant_id, project_id, minute, event_type, log_id, log_partition)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
;
CREATE VIEW event_counts_by_minute AS
SELECT tenant_id, project_id, minute, event_type, sum(count) AS count
FROM event_counts_by_partition FINAL
GROUP BY tenant_id, project_id, minute, event_type
