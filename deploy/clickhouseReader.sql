-- Creates the account that only reads, for `CLICKHOUSE_READER_URL` and BI tools. Replace the password and, if it differs, the database.
CREATE SETTINGS PROFILE questlog_reader SETTINGS readonly = 1, cancel_http_readonly_queries_on_client_close = 1,
  max_execution_time = 30 MIN 1 MAX 60 CHANGEABLE_IN_READONLY,
  max_memory_usage = 4000000000 MIN 1 MAX 4000000000 CHANGEABLE_IN_READONLY,
  max_result_rows MIN 1 MAX 100000 CHANGEABLE_IN_READONLY,
  max_result_bytes MIN 1 MAX 268435456 CHANGEABLE_IN_READONLY,
  result_overflow_mode CONST, max_threads CHANGEABLE_IN_READONLY, join_use_nulls CHANGEABLE_IN_READONLY,
  session_timezone = 'UTC' CHANGEABLE_IN_READONLY;
CREATE USER questlog_reader IDENTIFIED BY '<password>' SETTINGS PROFILE 'questlog_reader';
GRANT SELECT ON questlog.* TO questlog_reader;
