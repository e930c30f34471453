CREATE DATABASE IF NOT EXISTS analytics
;
CREATE TABLE analytics.events
(
    id UUID, tenant_id UUID, project_id UUID, session_id Nullable(UUID), build_id Nullable(UUID), event_type String,
    occurred_at DateTime64(6, 'UTC'), received_at DateTime64(3, 'UTC'), payload String, sequence Nullable(UInt64),
    sample_rate Float64, log_id UUID, log_partition UInt32, log_offset UInt64
)
ENGINE = ReplacingMergeTree ORDER BY (tenant_id, project_id, id)
;
CREATE TABLE analytics.loaded_offsets (log_id UUID, partition UInt32, next_offset UInt64)
ENGINE = ReplacingMergeTree ORDER BY (log_id, partition)
;
CREATE TABLE analytics.offset_ranges (log_id UUID, partition UInt32, from_offset UInt64, next_offset UInt64)
ENGINE = MergeTree ORDER BY (log_id, partition)
