ALTER TABLE rejects
    COMMENT COLUMN count 'Number of rejected fields, elements or requests. In a row of the kind `ignored`: number of requests. In a row of the kind `warned`: number of timestamps',
    COMMENT COLUMN last_seen 'Time of the last answer to a counted request'
;
ALTER TABLE audit
    COMMENT COLUMN actor 'Sender of the request. After `token:` or `console:` are digits of a SHA-256 of the credentials, and after `game-token:` is the id of the token. The actor is `nobody` if the request had no token, and `several` if the row counts rejections of several senders'
