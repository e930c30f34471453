-- A token is remembered for so many inserts into the table, of all partitions together: 1,000 are few minutes of a busy
-- deployment, and an owner that was stopped may come back later than that.
ALTER TABLE events MODIFY SETTING non_replicated_deduplication_window = 10000
;
ALTER TABLE sessions MODIFY SETTING non_replicated_deduplication_window = 10000
;
ALTER TABLE appends MODIFY SETTING non_replicated_deduplication_window = 10000
