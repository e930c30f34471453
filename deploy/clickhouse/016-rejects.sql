-- What ingest refused or ignored, counted by each of its processes a few times a minute. Rows of one minute and field add
-- up, whichever process wrote them, before a merge too: ask the view `rejects`. Best effort: a process that is killed
-- loses its last seconds.
CREATE TABLE reject_counts
(
    tenant_id  UUID COMMENT 'The studio; zeros: the request had no valid token',
    project_id UUID COMMENT 'The game; zeros: the request had no valid token',
    minute     DateTime('UTC') COMMENT 'When it was answered, by the server’s clock' CODEC(Delta, ZSTD(1)),
    kind       Enum8('rejected' = 0, 'ignored' = 1) COMMENT 'ignored: a field that the contract does not have',
    code       LowCardinality(String) COMMENT 'A problem code; of an ignored field field_unknown',
    field      String COMMENT 'A JSON pointer, * for each index; empty: the request or element as a whole' CODEC(ZSTD(1)),
    endpoint   LowCardinality(String) COMMENT 'Method and path; empty: no endpoint has that path',
    count      SimpleAggregateFunction(sum, UInt64) COMMENT 'Refused fields, elements or requests of the flush' CODEC(ZSTD(1)),
    requests   SimpleAggregateFunction(sum, UInt64) COMMENT 'Requests of the flush' CODEC(ZSTD(1)),
    last_seen  SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'The last of them' CODEC(Delta, ZSTD(1)),
    event_type SimpleAggregateFunction(any, String) COMMENT 'Of the event that the sample was taken from' CODEC(ZSTD(1)),
    sample     SimpleAggregateFunction(any, String) COMMENT 'What was sent there by one of them, cut' CODEC(ZSTD(1))
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMMDD(minute)
ORDER BY (tenant_id, project_id, minute, kind, code, field, endpoint)
TTL minute + INTERVAL 30 DAY
SETTINGS non_replicated_deduplication_window = 1000, ttl_only_drop_parts = 1
;
-- What ingest refused or ignored, per minute: how a game team finds its typo. Rows are kept for 30 days. The counts are best
-- effort: an ingest that is killed loses its last seconds. Of a project at most 100 kinds of reject are told apart in a
-- minute by each ingest; the field of the others is `other`.
CREATE VIEW rejects AS
SELECT tenant_id, project_id, minute, kind, code, field, endpoint, sum(count) AS count, sum(requests) AS requests,
       max(last_seen) AS last_seen, any(event_type) AS event_type, any(sample) AS sample
FROM reject_counts
GROUP BY tenant_id, project_id, minute, kind, code, field, endpoint
;
ALTER TABLE rejects
    COMMENT COLUMN tenant_id 'The studio; zeros: the request had no valid token',
    COMMENT COLUMN project_id 'The game; zeros: the request had no valid token',
    COMMENT COLUMN minute 'When it was answered, by the server’s clock',
    COMMENT COLUMN kind 'rejected or ignored: a field that the contract does not have',
    COMMENT COLUMN code 'A problem code; of an ignored field field_unknown',
    COMMENT COLUMN field 'A JSON pointer, * for each index; empty: the request or element as a whole',
    COMMENT COLUMN endpoint 'Method and path; empty: no endpoint has that path',
    COMMENT COLUMN count 'Refused fields, elements or requests; of an ignored field its requests',
    COMMENT COLUMN requests 'Requests that it happened to',
    COMMENT COLUMN last_seen 'The last of them',
    COMMENT COLUMN event_type 'Of the event that the sample was taken from; empty: not known',
    COMMENT COLUMN sample 'What one of them sent there: at most 256 bytes, tokens and passwords masked; empty: nothing to show'
