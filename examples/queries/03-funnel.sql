-- Where do players drop out?
WITH
    ['tutorial_start', 'tutorial_done', 'first_match', 'first_win'] AS checkpoints,
    reached AS
    (
        SELECT player,
               windowFunnel(24 * 3600 * 1000000)(
                   toUInt64(toUnixTimestamp64Micro(occurred_at)),
                   passed = 1, passed = 2, passed = 3, passed = 4) AS steps
        FROM
        (
            SELECT session_id, occurred_at, indexOf(checkpoints, JSONExtractString(payload, 'name')) AS passed
            FROM events
            WHERE tenant_id = {tenant:UUID} AND project_id = {project:UUID} AND event_type = 'checkpoint'
              AND occurred_at >= {from:Date} AND occurred_at < {to:Date}
        ) AS steps_of_sessions
        INNER JOIN
        (
            SELECT id, player_external_id AS player FROM sessions WHERE project_id = {project:UUID}
        ) AS played ON played.id = steps_of_sessions.session_id
        WHERE player IS NOT NULL
        GROUP BY player
    )
SELECT step,
       checkpoints[step] AS checkpoint,
       countIf(steps >= step) AS players,
       round(players / countIf(steps >= 1), 3) AS share
FROM reached
ARRAY JOIN arrayEnumerate(checkpoints) AS step
GROUP BY step
ORDER BY step
