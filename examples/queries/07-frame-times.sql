-- How smooth is each platform?
SELECT platform,
       sum(values) AS samples,
       arrayMap(value -> round(value, 3), quantilesMerge(0.5, 0.95, 0.99)(state)) AS p50_p95_p99
FROM
(
    SELECT build_id, count() AS values, quantilesState(0.5, 0.95, 0.99)(JSONExtractFloat(payload, 'frameTimeMs')) AS state
    FROM events
    WHERE tenant_id = {tenant:UUID} AND project_id = {project:UUID} AND event_type = 'performance'
      AND occurred_at >= {from:Date} AND occurred_at < {to:Date}
    GROUP BY build_id
) AS measured
INNER JOIN
(
    SELECT build_id, platform FROM builds WHERE project_id = {project:UUID}
) AS known ON known.build_id = measured.build_id
GROUP BY platform
ORDER BY platform
