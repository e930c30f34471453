-- How many players play each day?
SELECT started_on AS day,
       uniqExact(player_external_id) AS players,
       count() AS sessions
FROM game_sessions
WHERE project_id = {project:UUID} AND day >= {from:Date} AND day < {to:Date}
GROUP BY day
ORDER BY day
