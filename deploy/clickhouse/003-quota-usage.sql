-- Counts are absolute: a row says how many events of a tenant and month one partition of the log holds up to
-- `last_offset`. Writing a row again changes nothing; a later row replaces an earlier one.
CREATE TABLE quota_usage_by_partition
(
    tenant_id     UUID,
    month         Date,
    log_id        UUID,
    log_partition UInt32,
    used          UInt64,
    last_offset   UInt64
)
ENGINE = ReplacingMergeTree(last_offset)
ORDER BY (tenant_id, month, log_id, log_partition)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
;
CREATE VIEW quota_usage AS
SELECT tenant_id, month, sum(used) AS used
FROM quota_usage_by_partition FINAL
GROUP BY tenant_id, month
