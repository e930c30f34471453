-- How many come back after one day, and after seven?
WITH players_days AS
(
    SELECT player_external_id, groupUniqArray(started_on) AS days, arrayMin(days) AS first_day
    FROM game_sessions
    WHERE project_id = {project:UUID} AND player_external_id IS NOT NULL AND started_at < {to:Date}
    GROUP BY player_external_id
)
SELECT first_day,
       count() AS players,
       if(first_day + 1 < {to:Date}, round(countIf(has(days, first_day + 1)) / players, 3), NULL) AS day_1,
       if(first_day + 7 < {to:Date}, round(countIf(has(days, first_day + 7)) / players, 3), NULL) AS day_7
FROM players_days
WHERE first_day >= {from:Date}
GROUP BY first_day
ORDER BY first_day
