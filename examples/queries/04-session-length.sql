-- How long is a session?
WITH played AS
(
    SELECT session_id,
           min(occurred_at) AS began,
           dateDiff('millisecond', began, max(occurred_at)) / 60000 AS minutes
    FROM events
    WHERE tenant_id = {tenant:UUID} AND project_id = {project:UUID} AND session_id IS NOT NULL
      AND occurred_at >= {from:Date} AND occurred_at < {to:Date}
    GROUP BY session_id
)
SELECT toDate(began) AS day,
       count() AS sessions,
       round(avg(minutes), 3) AS mean,
       round(quantile(0.5)(minutes), 3) AS median,
       round(quantile(0.9)(minutes), 3) AS p90
FROM played
GROUP BY day
ORDER BY day
