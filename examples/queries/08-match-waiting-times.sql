-- How long do players wait for a match?
WITH searches AS
(
    SELECT JSONExtractString(payload, 'ticket') AS ticket,
           anyIf(JSONExtractString(payload, 'mode'), event_type = 'match_search') AS mode,
           minOrNullIf(occurred_at, event_type = 'match_search') AS began,
           minOrNullIf(occurred_at, event_type = 'match_found') AS found
    FROM events
    WHERE tenant_id = {tenant:UUID} AND project_id = {project:UUID} AND event_type IN ('match_search', 'match_found')
      AND occurred_at >= {from:Date} AND occurred_at < {to:Date}
    GROUP BY session_id, ticket
    HAVING began IS NOT NULL
)
SELECT mode,
       count() AS searches,
       round(countIf(found IS NULL) / searches, 3) AS given_up,
       round(quantile(0.5)(dateDiff('millisecond', began, found) / 1000), 3) AS median_s,
       round(quantile(0.95)(dateDiff('millisecond', began, found) / 1000), 3) AS p95_s
FROM searches
GROUP BY mode
ORDER BY mode
