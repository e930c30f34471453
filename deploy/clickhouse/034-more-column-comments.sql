ALTER TABLE rejects
    COMMENT COLUMN count 'Number of rejected fields, elements or requests. In a row of the kind `ignored`: number of requests. In a row of the kind `warned`: number of timestamps',
    COMMENT COLUMN last_seen 'Time of the last answer to a counted request'
;
ALTER TABLE audit
    COMMENT COLUMN at 'Time of the request by the clock of the server. In a row that counts rejections: time of the first rejection',
    COMMENT COLUMN done_at 'Time of the answer. In a row that counts rejections: time of the last rejection',
    COMMENT COLUMN actor 'Sender of the request. After `token:` or `console:` are digits of a SHA-256 of the credentials, and after `game-token:` is the id of the token. The actor is `nobody` if the request had no token, and `several` if the row counts rejections of several senders'
;
ALTER TABLE players
    COMMENT COLUMN first_played 'Time when the first session started. The clock of the player measured this time. It lies in the 90 days before the registration of the session, like game_sessions.started_at',
    COMMENT COLUMN last_played 'Time when the latest session started. The clock of the player measured this time. It lies in the 90 days before the registration of the session, like game_sessions.started_at',
    COMMENT COLUMN first_seen 'Time when the first session was registered, by the clock of the server. The time is later than first_played if the player was offline',
    COMMENT COLUMN last_seen 'Time when the latest session was registered, by the clock of the server'
;
ALTER TABLE reports
    COMMENT COLUMN attachments 'Files of the report. A file in the state `missing` had not been uploaded when the report was accepted'
;
ALTER TABLE truncations
    COMMENT COLUMN stored_rows 'Number of rows in ClickHouse that belong to the lost records'
