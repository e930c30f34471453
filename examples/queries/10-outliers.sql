-- Which players have an unusual kill rate?
WITH
    played AS
    (
        SELECT session_id,
               countIf(event_type = 'kill') AS kills,
               dateDiff('millisecond', min(occurred_at), max(occurred_at)) / 60000 AS minutes
        FROM events
        WHERE tenant_id = {tenant:UUID} AND project_id = {project:UUID} AND session_id IS NOT NULL
          AND occurred_at >= {from:Date} AND occurred_at < {to:Date}
        GROUP BY session_id
    ),
    rates AS
    (
        SELECT player_external_id AS player, sum(kills) / sum(minutes) AS kills_a_minute
        FROM played
        INNER JOIN
        (
            SELECT id, player_external_id FROM sessions WHERE project_id = {project:UUID}
        ) AS of_player ON of_player.id = played.session_id
        WHERE player IS NOT NULL
        GROUP BY player
        HAVING sum(minutes) >= 10
    ),
    distances AS
    (
        SELECT player, kills_a_minute, kills_a_minute - median(kills_a_minute) OVER () AS distance FROM rates
    )
SELECT player, round(kills_a_minute, 3) AS kills_a_minute, round(deviations, 3) AS deviations
FROM
(
    SELECT player, kills_a_minute, distance / (1.4826 * median(abs(distance)) OVER ()) AS deviations FROM distances
)
WHERE deviations > 6
ORDER BY deviations DESC
LIMIT 100
