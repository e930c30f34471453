-- What became of each pair of a report and an event. A link goes through its states in the order of `version` only, so
-- the largest is the latest, in whatever order rows are written. Ask the view `report_links`.
-- Sorted by event: the reports of an event are one look-up.
CREATE TABLE report_link_versions
(
    tenant_id     UUID,
    project_id    UUID,
    report_id     UUID,
    event_id      UUID,
    state         Enum8('pending' = 0, 'unresolved' = 1, 'linked' = 2, 'retracted' = 3),
    source        Enum8('inline' = 0, 'named' = 1, 'session' = 2),
    version       UInt8,
    changed_at    DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    log_id        UUID CODEC(ZSTD(1)),
    log_partition UInt32,
    log_offset    UInt64 CODEC(Delta, ZSTD(1)),
    INDEX by_report report_id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (project_id, event_id, report_id)
SETTINGS index_granularity = 512, fsync_after_insert = 1, fsync_part_directory = 1
;
-- Every link of a report and an event, in its latest state. A report that was retracted waits for nothing any more.
CREATE VIEW report_links AS
SELECT tenant_id, project_id, report_id, event_id,
       if(version < 2 AND (project_id, report_id) IN
              (SELECT project_id, id FROM report_versions WHERE retracted_at IS NOT NULL),
          CAST('retracted', 'Enum8(\'pending\' = 0, \'unresolved\' = 1, \'linked\' = 2, \'retracted\' = 3)'), state) AS state,
       source, changed_at, log_id, log_partition, log_offset
FROM report_link_versions FINAL
;
-- Every event with the reports that it is linked to now. Filter by `project_id` and a time; for single events ask
-- `report_links`.
CREATE VIEW events_with_reports AS
SELECT events.*, links.report_ids AS report_ids
FROM events
LEFT JOIN
(
    SELECT project_id, event_id, groupArray(report_id) AS report_ids
    FROM report_link_versions FINAL
    WHERE state = 'linked'
    GROUP BY project_id, event_id
) AS links ON links.project_id = events.project_id AND links.event_id = events.id
