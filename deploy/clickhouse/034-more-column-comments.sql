ALTER TABLE rejects
    COMMENT COLUMN count 'Number of rejected fields, elements or requests. In a row of the kind `ignored`: number of requests. In a row of the kind `warned`: number of timestamps',
    COMMENT COLUMN last_seen 'Time of the last answer to a counted request'
;
ALTER TABLE audit
    COMMENT COLUMN actor 'Sender of the request: `token:` or `console:` and digits of a SHA-256, `game-token:` and the id of the token, `nobody` if the request had no token, or `several` if the row counts rejections of several senders'
