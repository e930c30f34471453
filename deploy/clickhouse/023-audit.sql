-- What operators changed and who was refused, as it was asked, and once more as it was answered. Ask the view `audit`.
CREATE TABLE audit_versions
(
    id            UUID COMMENT 'Of the change, or of the count of refusals',
    kind          LowCardinality(String) COMMENT 'change or refusal',
    at            DateTime64(3, 'UTC') COMMENT 'When it was asked, by the server’s clock; of refusals the first',
    done_at       Nullable(DateTime64(3, 'UTC')) COMMENT 'When it was answered; of refusals the last',
    actor         String COMMENT 'Who: token: or console: with digits of a SHA-256, game-token: with an id, nobody, several' CODEC(ZSTD(1)),
    address       String COMMENT 'Whence the connection came' CODEC(ZSTD(1)),
    method        LowCardinality(String) COMMENT 'Of the request',
    route         LowCardinality(String) COMMENT 'The path with the names of its parameters',
    target        Nullable(String) COMMENT 'The ids in the path, or the id of what was made' CODEC(ZSTD(1)),
    tenant_id     Nullable(UUID) COMMENT 'The studio, where it was about one',
    project_id    Nullable(UUID) COMMENT 'The game, where it was about one',
    body          Nullable(String) COMMENT 'JSON: what was asked, without secrets' CODEC(ZSTD(1)),
    before        Nullable(String) COMMENT 'JSON: the tenant, project or token as it was' CODEC(ZSTD(1)),
    after         Nullable(String) COMMENT 'JSON: the same as it is since then' CODEC(ZSTD(1)),
    status        Nullable(UInt16) COMMENT 'Of the answer; NULL: not known',
    code          Nullable(String) COMMENT 'Of the problem that was answered' CODEC(ZSTD(1)),
    count         UInt64 COMMENT 'Refusals that the row stands for',
    version       UInt8 COMMENT '0: asked; 1: answered',
    log_id        UUID COMMENT 'The log that the record lies in' CODEC(ZSTD(1)),
    log_partition UInt32 COMMENT 'Of the topic questlog.audit.v1',
    log_offset    UInt64 COMMENT 'Of the record'
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(at)
ORDER BY (at, id)
TTL toDateTime(at) + INTERVAL 1 YEAR
SETTINGS ttl_only_drop_parts = 1, fsync_after_insert = 1, fsync_part_directory = 1
;
-- What operators changed, and who was refused on their listener: who, what, before, after, from where. Rows are kept for a
-- year. Of a change whose ingest died before it could answer, `status` is NULL.
CREATE VIEW audit AS
SELECT id, kind, at, done_at, actor, address, method, route, target, tenant_id, project_id, body, before, after, status, code,
       count, log_id, log_partition, log_offset
FROM audit_versions FINAL
;
ALTER TABLE audit
    COMMENT COLUMN id 'Of the change, or of the count of refusals',
    COMMENT COLUMN kind 'change or refusal',
    COMMENT COLUMN at 'When it was asked, by the server’s clock; of refusals the first',
    COMMENT COLUMN done_at 'When it was answered; of refusals the last',
    COMMENT COLUMN actor 'Who: token: or console: with digits of a SHA-256, game-token: with an id, nobody, several',
    COMMENT COLUMN address 'Whence the connection came',
    COMMENT COLUMN method 'Of the request',
    COMMENT COLUMN route 'The path with the names of its parameters',
    COMMENT COLUMN target 'The ids in the path, or the id of what was made',
    COMMENT COLUMN tenant_id 'The studio, where it was about one',
    COMMENT COLUMN project_id 'The game, where it was about one',
    COMMENT COLUMN body 'JSON: what was asked, without secrets',
    COMMENT COLUMN before 'JSON: the tenant, project or token as it was',
    COMMENT COLUMN after 'JSON: the same as it is since then',
    COMMENT COLUMN status 'Of the answer; NULL: not known',
    COMMENT COLUMN code 'Of the problem that was answered',
    COMMENT COLUMN count 'Refusals that the row stands for',
    COMMENT COLUMN log_id 'The log that the record lies in',
    COMMENT COLUMN log_partition 'Of the topic questlog.audit.v1',
    COMMENT COLUMN log_offset 'Of the record'
