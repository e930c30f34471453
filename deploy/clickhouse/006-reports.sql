-- Bug reports, the first record of an id in the log, and once more when a report is retracted. Ask the view `reports`.
-- `from_micros` and `to_micros` are the window in which an event of the session belongs to the report, both ends inside.
CREATE TABLE report_versions
(
    tenant_id        UUID,
    project_id       UUID,
    id               UUID,
    session_id       Nullable(UUID),
    session_lane     Nullable(UInt32),
    occurred_at      DateTime64(6, 'UTC'),
    received_at      DateTime64(3, 'UTC'),
    window_before_ms UInt32,
    window_after_ms  UInt32,
    from_micros      Int64,
    to_micros        Int64,
    inline_event_ids Array(UUID),
    event_ids        Array(UUID),
    request_sha256   Nullable(FixedString(32)),
    retracted_at     Nullable(DateTime64(3, 'UTC')),
    version          UInt8,
    log_id           UUID CODEC(ZSTD(1)),
    log_partition    UInt32,
    log_offset       UInt64,
    INDEX by_session session_id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (project_id, id)
SETTINGS index_granularity = 512, fsync_after_insert = 1, fsync_part_directory = 1
;
-- Bug reports, each once, with the time of its retraction where it was retracted.
CREATE VIEW reports AS
SELECT tenant_id, project_id, id, session_id, session_lane, occurred_at, received_at, window_before_ms, window_after_ms,
       from_micros, to_micros, inline_event_ids, event_ids, request_sha256, retracted_at, log_id, log_partition, log_offset
FROM report_versions FINAL
