-- Adds the kind 'warned' to rejects: times that are stored although the clock of the client is probably wrong. A version that
-- does not know the kind writes the other two as before.
ALTER TABLE reject_counts
    MODIFY COLUMN kind Enum8('rejected' = 0, 'ignored' = 1, 'warned' = 2) COMMENT 'rejected; ignored: a field that the contract does not define; warned: a time that is stored although the clock of the client is probably wrong'
;
CREATE OR REPLACE VIEW rejects AS
SELECT tenant_id, project_id, minute, kind, code, field, endpoint, sum(count) AS count, sum(requests) AS requests,
       max(last_seen) AS last_seen, any(event_type) AS event_type, any(sample) AS sample
FROM reject_counts
GROUP BY tenant_id, project_id, minute, kind, code, field, endpoint
;
ALTER TABLE rejects
    MODIFY COMMENT 'Rejected and ignored input, and warnings, of each minute, for 30 days. Best effort: a process that is killed loses its last seconds.',
    COMMENT COLUMN tenant_id 'Tenant; zeros if the request had no valid token',
    COMMENT COLUMN project_id 'Project; zeros if the request had no valid token',
    COMMENT COLUMN minute 'Minute of the answer by the clock of the server',
    COMMENT COLUMN kind 'rejected; ignored: a field that the contract does not define; warned: a time that is stored although the clock of the client is probably wrong',
    COMMENT COLUMN code 'Problem code; field_unknown for an ignored field; time_ahead, time_before_2015 or time_without_zone for a warning',
    COMMENT COLUMN field 'JSON pointer with * for each index; empty if the whole request or element is meant',
    COMMENT COLUMN endpoint 'Method and path; empty if no endpoint has the path',
    COMMENT COLUMN count 'Rejected fields, elements or requests; for an ignored field, requests; for a warning, times',
    COMMENT COLUMN requests 'Affected requests',
    COMMENT COLUMN last_seen 'Time of the last of them',
    COMMENT COLUMN event_type 'Type of the event that the sample was taken from; empty if it is unknown',
    COMMENT COLUMN sample 'Value of the field in one of the requests: at most 256 bytes, tokens and passwords masked; empty if there is no value'
