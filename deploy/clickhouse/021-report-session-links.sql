-- How many links by its session a report gets. Not in the view `reports`.
ALTER TABLE report_versions
    ADD COLUMN IF NOT EXISTS max_session_links UInt32 DEFAULT 20000 COMMENT 'Links by session and window that the report gets, the first in the log' AFTER window_after_ms
