-- 1. Reads the published offsets. This is a separate statement, because within one statement ClickHouse can read the rows of
-- `events` before the offsets.
TRUNCATE TABLE analytics.offset_ranges
;
INSERT INTO analytics.offset_ranges
SELECT log_id, partition,
       if(truncated_log_id IS NULL,
          least(loaded, next_offset, min(lost_from) OVER (PARTITION BY ifNull(truncated_log_id, log_id), partition)),
          loaded) AS from_offset,
       next_offset
FROM
(
    SELECT published.log_id AS log_id, published.partition AS partition, published.next_offset AS next_offset, truncated_log_id,
           ifNull(known.next_offset, 0) AS loaded,
           if(loaded = 0, ifNull(truncated_from, 18446744073709551615), 18446744073709551615) AS lost_from
    FROM questlog.projected_offsets AS published
    LEFT JOIN (SELECT * FROM analytics.loaded_offsets FINAL) AS known
        ON known.log_id = published.log_id AND known.partition = published.partition
    WHERE topic = 'questlog.events.v1'
)
;
-- 2. Copies the new rows.
INSERT INTO analytics.events
SELECT id, tenant_id, project_id, session_id, build_id, event_type, occurred_at, received_at, payload, sequence, sample_rate,
       log_id, log_partition, log_offset
FROM questlog.events AS new
INNER JOIN analytics.offset_ranges AS ranges ON ranges.log_id = new.log_id AND ranges.partition = new.log_partition
WHERE log_offset >= from_offset AND log_offset < next_offset
  AND log_offset >= (SELECT min(from_offset) FROM analytics.offset_ranges WHERE from_offset < next_offset)
  AND log_offset < (SELECT max(next_offset) FROM analytics.offset_ranges WHERE from_offset < next_offset)
;
-- 3. Stores the offsets up to which the target is loaded.
INSERT INTO analytics.loaded_offsets
SELECT log_id, partition, next_offset FROM analytics.offset_ranges
