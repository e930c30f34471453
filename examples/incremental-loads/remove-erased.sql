DELETE FROM analytics.events
WHERE (log_id, log_partition, log_offset) IN (SELECT log_id, log_partition, log_offset FROM questlog.erased_events)
  AND id NOT IN
  (
      SELECT id FROM questlog.events
      WHERE (log_id, log_partition, log_offset) IN (SELECT log_id, log_partition, log_offset FROM questlog.erased_events)
  )
