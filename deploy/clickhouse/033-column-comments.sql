ALTER TABLE rejects
    COMMENT COLUMN kind 'rejected (Questlog did not accept the request, element or field), ignored (the contract does not define the field), or warned (Questlog stored a timestamp although the clock of the client is probably wrong)',
    COMMENT COLUMN field 'JSON pointer to the field, with * in place of array indexes; empty if the whole request or element is meant',
    COMMENT COLUMN count 'Number of rejected fields, elements or requests. If kind is ignored, number of requests. If kind is warned, number of timestamps',
    COMMENT COLUMN last_seen 'Time of the last answer that the row counts'
;
ALTER TABLE truncations
    COMMENT COLUMN orphan_id 'New log_id that the projector wrote into the rows of the lost records',
    COMMENT COLUMN records 'Number of records that the log lost and whose rows are in ClickHouse',
    COMMENT COLUMN stored_rows 'Number of rows of these records',
    COMMENT COLUMN ids 'For events: append ids. For sessions and reports: their ids. For links: ids of the linked events'
;
ALTER TABLE ledger
    COMMENT COLUMN minute 'Minute of received_at. A request without events is counted in the minute of its answer'
;
ALTER TABLE audit
    COMMENT COLUMN at 'Time of the request by the clock of the server. If the row counts rejections, time of the first rejection',
    COMMENT COLUMN done_at 'Time of the answer. If the row counts rejections, time of the last rejection',
    COMMENT COLUMN actor 'Caller: token: or console: followed by digits of a SHA-256, game-token: followed by an id, nobody (no token), or several (the row counts rejections of several callers)'
;
ALTER TABLE reports
    COMMENT COLUMN attachments 'Files of the report. The state missing says that the file had not been uploaded when the report was accepted',
    COMMENT COLUMN from_micros 'Start of the window (inclusive), in microseconds since 1970',
    COMMENT COLUMN to_micros 'End of the window (inclusive), in microseconds since 1970'
;
ALTER TABLE report_links
    COMMENT COLUMN state 'pending (the event is awaited), unresolved (the event did not arrive in time), linked, or retracted (the report was retracted)',
    COMMENT COLUMN source 'inline (the report contains the event), named (the report names the id of the event), or session (the event is in the session and the window of the report)'
;
ALTER TABLE report_groups
    COMMENT COLUMN builds 'Number of different builds; reports without a build are ignored',
    COMMENT COLUMN players 'Number of different players; reports without a player are ignored'
;
ALTER TABLE sessions
    COMMENT COLUMN log_offset 'Offset of the record; if several records have the same session id, offset of the first record'
;
ALTER TABLE game_events
    COMMENT COLUMN platform 'Platform of the session, even if the event names another build'
;
ALTER TABLE projected_offsets
    COMMENT COLUMN log_id 'Id of the log. In a row about a truncation: new log_id of the rows of the lost records',
    COMMENT COLUMN next_offset 'The rows of all records with a smaller offset exist',
    COMMENT COLUMN truncated_log_id 'Id of the log that lost the records; NULL if the row is not about a truncation',
    COMMENT COLUMN truncated_from 'First offset that this log lost; NULL if the row is not about a truncation'
