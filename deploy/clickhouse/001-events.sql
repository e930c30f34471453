-- Every event, once. `payload` is the text the game sent, byte for byte; it stays a String because the JSON type
-- refuses what JSON allows (integers beyond 64 bits, 1e400, duplicate keys, lone surrogates).
-- `id_at` is the time inside the UUIDv7: ClickHouse sorts UUIDs by their second half, so the id alone is no time order.
-- Partitioned by `received_at`: by `occurred_at`, one game with a broken clock would open a hundred partitions at once.
CREATE TABLE events
(
    id           UUID,
    tenant_id    UUID,
    project_id   UUID,
    session_id   Nullable(UUID),
    build_id     Nullable(UUID),
    event_type   String CODEC(ZSTD(1)),
    occurred_at  DateTime64(6, 'UTC') CODEC(Delta, ZSTD(1)),
    received_at  DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    payload      String CODEC(ZSTD(1)),
    over_quota   Bool,
    log_id       UUID CODEC(ZSTD(1)),
    log_partition UInt32 CODEC(ZSTD(1)),
    log_offset   UInt64 CODEC(Delta, ZSTD(1)),
    log_index    UInt32 CODEC(Delta, ZSTD(1)),
    id_at        DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    INDEX by_session session_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_occurred occurred_at TYPE minmax GRANULARITY 1,
    INDEX by_offset log_offset TYPE minmax GRANULARITY 1
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(received_at)
ORDER BY (tenant_id, project_id, id_at, id)
SETTINGS index_granularity = 512, non_replicated_deduplication_window = 1000,
         fsync_after_insert = 1, fsync_part_directory = 1
