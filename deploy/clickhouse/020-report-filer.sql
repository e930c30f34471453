-- Who filed a report: only that token, or an operator, may take it back. Not in the view `reports`.
ALTER TABLE report_versions
    ADD COLUMN IF NOT EXISTS filed_by Nullable(UUID) COMMENT 'Id of the token; NULL: nobody knows' AFTER attachments
