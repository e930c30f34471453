-- Whoever takes a partition over looks for the rows of its newest records, in tables that are sorted by something else.
-- Older parts get the index as they merge.
ALTER TABLE sessions ADD INDEX IF NOT EXISTS by_offset log_offset TYPE minmax GRANULARITY 1
;
ALTER TABLE report_versions ADD INDEX IF NOT EXISTS by_offset log_offset TYPE minmax GRANULARITY 1
;
ALTER TABLE report_link_versions ADD INDEX IF NOT EXISTS by_offset log_offset TYPE minmax GRANULARITY 1
