-- Does the experiment help?
WITH
    finished AS
    (
        SELECT session_id
        FROM events
        WHERE tenant_id = {tenant:UUID} AND project_id = {project:UUID} AND event_type = 'checkpoint'
          AND JSONExtractString(payload, 'name') = 'tutorial_done' AND session_id IS NOT NULL
          AND received_at >= {from:Date}
    ),
    players AS
    (
        SELECT player_external_id,
               argMinIf(variant, began, variant != '') AS of_variant,
               max(id IN finished) AS has_finished
        FROM
        (
            SELECT id,
                   player_external_id,
                   started_at AS began,
                   JSONExtractString(metadata, 'experiments', 'tutorial') AS variant
            FROM game_sessions
            WHERE project_id = {project:UUID} AND player_external_id IS NOT NULL
              AND began >= {from:Date} AND began < {to:Date}
        )
        GROUP BY player_external_id
    ),
    proportionsZTest(finished_b, finished_a, players_b, players_a, 0.95, 'unpooled') AS test
SELECT countIf(of_variant = 'A') AS players_a,
       countIf(of_variant = 'B') AS players_b,
       countIf(of_variant = 'A' AND has_finished) AS finished_a,
       countIf(of_variant = 'B' AND has_finished) AS finished_b,
       finished_b / players_b - finished_a / players_a AS difference,
       tupleElement(test, 'confidence_interval_low') AS low,
       tupleElement(test, 'confidence_interval_high') AS high,
       tupleElement(test, 'p_value') AS p_value
FROM players
