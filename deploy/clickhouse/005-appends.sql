-- The ledger of appends: which requests are in `events`, and under which Idempotency-Key. A repeated append is
-- recognised by it. Kept for three days, longer than any client retries.
CREATE TABLE appends
(
    append_id       UUID,
    tenant_id       UUID,
    project_id      UUID,
    idempotency_key Nullable(UUID),
    body_sha256     Nullable(FixedString(32)),
    received_at     DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    events          UInt32,
    log_id          UUID CODEC(ZSTD(1)),
    log_partition   UInt32,
    log_offset      UInt64 CODEC(Delta, ZSTD(1)),
    INDEX by_append_id append_id TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX by_key idempotency_key TYPE bloom_filter(0.001) GRANULARITY 1
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMMDD(received_at)
ORDER BY (log_id, log_partition, log_offset)
TTL toDateTime(received_at) + INTERVAL 3 DAY
SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1, ttl_only_drop_parts = 1
