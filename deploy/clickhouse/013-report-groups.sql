-- The problems of a project: its reports by their fingerprint, without those that were retracted. Filter by
-- `project_id`. Players are counted by what their sessions were registered with.
CREATE VIEW report_groups AS
SELECT reports.tenant_id AS tenant_id, reports.project_id AS project_id, reports.fingerprint AS fingerprint,
       argMax(reports.title, (reports.received_at, reports.id)) AS title, count() AS occurrences,
       min(reports.received_at) AS first_seen, max(reports.received_at) AS last_seen,
       uniqExact(reports.build_id) AS builds, uniqExact(players.external_id) AS players
FROM reports
LEFT JOIN
(
    SELECT project_id, id AS session_id, any(player_external_id) AS external_id
    FROM sessions
    WHERE (project_id, id) IN
          (SELECT project_id, assumeNotNull(report_versions.session_id) FROM report_versions
           WHERE report_versions.session_id IS NOT NULL AND fingerprint != '')
    GROUP BY project_id, id
) AS players ON players.project_id = reports.project_id AND players.session_id = reports.session_id
WHERE reports.fingerprint != '' AND reports.retracted_at IS NULL
GROUP BY reports.tenant_id, reports.project_id, reports.fingerprint
;
ALTER TABLE report_groups
    COMMENT COLUMN tenant_id 'The studio',
    COMMENT COLUMN project_id 'The game',
    COMMENT COLUMN fingerprint 'As in reports; those without one are in no group',
    COMMENT COLUMN title 'Of the report that was received last',
    COMMENT COLUMN occurrences 'Reports that were not retracted',
    COMMENT COLUMN first_seen 'When the first of them was received',
    COMMENT COLUMN last_seen 'When the last of them was received',
    COMMENT COLUMN builds 'How many builds they are about; a report without one counts for none',
    COMMENT COLUMN players 'How many players they came from; a session without a player counts for none'
