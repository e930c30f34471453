/** Tables and views for analysts, in the order of the console and of the reference. All other tables are for operators. */
export const TABLES_FOR_ANALYSTS = [
  ...['events', 'game_events', 'sessions', 'game_sessions', 'players', 'builds', 'reports', 'report_links'],
  ...['events_with_reports', 'report_groups', 'event_counts_by_minute', 'quota_usage', 'projected_offsets'],
];
