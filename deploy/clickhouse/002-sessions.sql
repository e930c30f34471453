-- Sessions, the first registration of an id in the log. The projector writes no second one;
-- `firstness` makes a merge keep the first all the same.
CREATE TABLE sessions
(
    tenant_id     UUID,
    project_id    UUID,
    id            UUID,
    build_id      Nullable(UUID),
    started_at    Nullable(DateTime64(6, 'UTC')),
    registered_at DateTime64(3, 'UTC'),
    lane          UInt32,
    log_id        UUID CODEC(ZSTD(1)),
    log_partition UInt32,
    log_offset    UInt64,
    firstness     UInt64 MATERIALIZED bitNot(log_offset)
)
ENGINE = ReplacingMergeTree(firstness)
ORDER BY (project_id, id)
SETTINGS index_granularity = 1024, non_replicated_deduplication_window = 1000,
         fsync_after_insert = 1, fsync_part_directory = 1
