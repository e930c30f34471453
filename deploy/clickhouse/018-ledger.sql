-- What each ingest was sent, and what the log took of it. Rows are absolute: a later row of a process replaces its earlier
-- one. Best effort: an ingest that is killed loses its last seconds, so that a minute may have less here than in the log.
CREATE TABLE received_by_process
(
    tenant_id  UUID COMMENT 'The studio; zeros: the request had no valid token',
    minute     DateTime('UTC') COMMENT 'Of the answer; of events their received_at' CODEC(Delta, ZSTD(1)),
    what       LowCardinality(String) COMMENT 'accepted, replayed, or a problem code; logged and uncertain: records of the log',
    process_id UUID COMMENT 'One run of an ingest',
    count      UInt64 COMMENT 'Requests, or records' CODEC(ZSTD(1)),
    events     UInt64 COMMENT 'In them' CODEC(ZSTD(1)),
    version    UInt64 COMMENT 'Grows with each row of the process' CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(minute)
ORDER BY (tenant_id, minute, what, process_id)
TTL minute + INTERVAL 90 DAY
SETTINGS ttl_only_drop_parts = 1
;
-- Records of the log that rightly became no rows: absolute, as in quota_usage_by_partition.
CREATE TABLE left_out_by_partition
(
    tenant_id     UUID COMMENT 'The studio; zeros: the record does not say',
    minute        DateTime('UTC') COMMENT 'Of received_at; of a record that cannot be read, when the log took it' CODEC(Delta, ZSTD(1)),
    what          Enum8('repeated_records' = 0, 'repeated_events' = 1, 'dead_records' = 2, 'dead_events' = 3, 'unreadable_records' = 4) COMMENT 'unreadable_records are among the dead_records',
    log_id        UUID COMMENT 'The log that the records lie in' CODEC(ZSTD(1)),
    log_partition UInt32 COMMENT 'Of the topic questlog.events.v1',
    count         UInt64 COMMENT 'Records or events up to last_offset',
    last_offset   UInt64 COMMENT 'The last record that is counted'
)
ENGINE = ReplacingMergeTree(last_offset)
PARTITION BY toYYYYMM(minute)
ORDER BY (tenant_id, minute, what, log_id, log_partition)
TTL minute + INTERVAL 90 DAY
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, ttl_only_drop_parts = 1
;
-- The books: of each tenant and minute what came in, what the log took, and what became of it. `missing_events` were taken
-- by the log and are neither projected, repeated nor dead; `unlogged_events` were accepted, and the log did not take them.
-- Both are 0 once the projector has passed the minute. What ingests count is kept for 90 days.
CREATE OR REPLACE VIEW ledger AS
SELECT tenant_id, minute, sumMap(outcomes_of_row) AS outcomes, sum(accepted) AS accepted_events, sum(logged) AS logged_events,
       sum(uncertain) AS uncertain_events, sum(projected) AS projected_events, sum(repeated) AS repeated_events,
       sum(dead) AS dead_events, sum(dead_of_row) AS dead_records,
       if(sum(unreadable) > 0, 0, greatest(0, toInt64(logged_events) - toInt64(projected_events) - toInt64(repeated_events) - toInt64(dead_events))) AS missing_events,
       greatest(0, toInt64(accepted_events) - toInt64(logged_events)) AS unlogged_events
FROM
(
    SELECT tenant_id, minute,
           if(what IN ('logged', 'uncertain'), CAST(map(), 'Map(String, UInt64)'), map(toString(what), count)) AS outcomes_of_row,
           if(what = 'accepted', events, 0) AS accepted, if(what = 'logged', events, 0) AS logged,
           if(what = 'uncertain', events, 0) AS uncertain,
           0 AS projected, 0 AS repeated, 0 AS dead, 0 AS dead_of_row, 0 AS unreadable
    FROM received_by_process FINAL
    UNION ALL
    SELECT tenant_id, minute, CAST(map(), 'Map(String, UInt64)') AS outcomes_of_row, 0 AS accepted, 0 AS logged, 0 AS uncertain,
           count AS projected, 0 AS repeated, 0 AS dead, 0 AS dead_of_row, 0 AS unreadable
    FROM event_counts_by_partition FINAL
    UNION ALL
    SELECT tenant_id, minute, CAST(map(), 'Map(String, UInt64)') AS outcomes_of_row, 0 AS accepted, 0 AS logged, 0 AS uncertain,
           0 AS projected, if(what = 'repeated_events', count, 0) AS repeated, if(what = 'dead_events', count, 0) AS dead,
           if(what = 'dead_records', count, 0) AS dead_of_row, if(what = 'unreadable_records', count, 0) AS unreadable
    FROM left_out_by_partition FINAL
)
GROUP BY tenant_id, minute
;
ALTER TABLE ledger
    COMMENT COLUMN tenant_id 'The studio; zeros: nobody knows',
    COMMENT COLUMN minute 'Of received_at; of requests without events, of the answer',
    COMMENT COLUMN outcomes 'Requests to /v1/ingest by outcome: accepted, replayed, or a problem code',
    COMMENT COLUMN accepted_events 'Answered with a 2xx',
    COMMENT COLUMN logged_events 'The log confirmed them',
    COMMENT COLUMN uncertain_events 'The log did not answer, and may have them all the same',
    COMMENT COLUMN projected_events 'Counted in event_counts_by_minute',
    COMMENT COLUMN repeated_events 'Appended again, and dropped',
    COMMENT COLUMN dead_events 'In the dead letters, as far as their records can be read',
    COMMENT COLUMN dead_records 'In the dead letters',
    COMMENT COLUMN missing_events 'Logged, and neither projected, repeated nor dead: not yet, or lost',
    COMMENT COLUMN unlogged_events 'Accepted, and not confirmed by the log'
