-- Which build crashes?
SELECT version,
       platform,
       channel,
       count() AS sessions,
       countIf(id NOT IN
       (
           SELECT session_id
           FROM events
           WHERE tenant_id = {tenant:UUID} AND project_id = {project:UUID} AND event_type = 'crash'
             AND session_id IS NOT NULL AND received_at >= {from:Date}
       )) AS crash_free_sessions,
       round(crash_free_sessions / sessions, 3) AS crash_free
FROM game_sessions
WHERE project_id = {project:UUID} AND build_id IS NOT NULL AND started_at >= {from:Date} AND started_at < {to:Date}
GROUP BY build_id, version, platform, channel
ORDER BY crash_free, version, platform, channel
