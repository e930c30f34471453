-- What a person or a tracker reads of a bug report.
ALTER TABLE report_versions
    ADD COLUMN IF NOT EXISTS build_id Nullable(UUID) COMMENT 'The build that the report named, or else its session’s' AFTER session_lane,
    ADD COLUMN IF NOT EXISTS title String COMMENT 'Empty in a bare link, as every text of the content' CODEC(ZSTD(1)) AFTER request_sha256,
    ADD COLUMN IF NOT EXISTS description String COMMENT 'At most 64 KiB' CODEC(ZSTD(1)) AFTER title,
    ADD COLUMN IF NOT EXISTS severity LowCardinality(String) COMMENT 'low, medium, high or critical' AFTER description,
    ADD COLUMN IF NOT EXISTS reporter_type LowCardinality(String) COMMENT 'player, tester, qa, internal or system' AFTER severity,
    ADD COLUMN IF NOT EXISTS source_channel LowCardinality(String) COMMENT 'Where the report came from' AFTER reporter_type,
    ADD COLUMN IF NOT EXISTS fingerprint String COMMENT 'Reports with one fingerprint in one project are one problem' CODEC(ZSTD(1)) AFTER source_channel,
    ADD COLUMN IF NOT EXISTS named_session_id Nullable(UUID) COMMENT 'The session that the client named, also one that the project does not know' AFTER fingerprint,
    ADD COLUMN IF NOT EXISTS context String COMMENT 'The JSON object that the game sent, byte for byte' CODEC(ZSTD(1)) AFTER named_session_id,
    ADD COLUMN IF NOT EXISTS attachments Array(Tuple(upload_id UUID, type String, file_name String, mime_type String, size_bytes Nullable(UInt64), state Enum8('stored' = 0, 'missing' = 1))) COMMENT 'Files; missing: not there when the report was filed' AFTER context,
    ADD INDEX IF NOT EXISTS by_fingerprint fingerprint TYPE bloom_filter(0.01) GRANULARITY 1
;
-- Bug reports, each once, with the time of its retraction where it was retracted.
CREATE OR REPLACE VIEW reports AS
SELECT tenant_id, project_id, id, session_id, session_lane, build_id, occurred_at, received_at, window_before_ms,
       window_after_ms, from_micros, to_micros, inline_event_ids, event_ids, request_sha256, title, description, severity,
       reporter_type, source_channel, fingerprint, named_session_id, context, attachments, retracted_at, log_id,
       log_partition, log_offset
FROM report_versions FINAL
;
ALTER TABLE reports
    COMMENT COLUMN build_id 'The build that the report named, or else its session’s',
    COMMENT COLUMN title 'Empty in a bare link, as every text of the content',
    COMMENT COLUMN description 'At most 64 KiB',
    COMMENT COLUMN severity 'low, medium, high or critical',
    COMMENT COLUMN reporter_type 'player, tester, qa, internal or system',
    COMMENT COLUMN source_channel 'Where the report came from',
    COMMENT COLUMN fingerprint 'Reports with one fingerprint in one project are one problem',
    COMMENT COLUMN named_session_id 'The session that the client named, also one that the project does not know',
    COMMENT COLUMN context 'The JSON object that the game sent, byte for byte',
    COMMENT COLUMN attachments 'Files; missing: not there when the report was filed'
