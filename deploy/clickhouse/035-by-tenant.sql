-- These tables are not sorted by tenant. With the index, a query of a studio's account skips the rows of other studios, so that the
-- duration of the query does not reveal how many rows other studios have. Older parts get the index when ClickHouse merges the parts.
ALTER TABLE sessions ADD INDEX IF NOT EXISTS by_tenant tenant_id TYPE minmax GRANULARITY 1
;
ALTER TABLE report_versions ADD INDEX IF NOT EXISTS by_tenant tenant_id TYPE minmax GRANULARITY 1
;
ALTER TABLE report_link_versions ADD INDEX IF NOT EXISTS by_tenant tenant_id TYPE minmax GRANULARITY 1
