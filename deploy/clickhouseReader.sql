-- Creates the account that only reads, for `CLICKHOUSE_READER_URL` and BI tools. Replace the password and, if it differs, the database.
CREATE SETTINGS PROFILE questlog_reader SETTINGS readonly = 1, cancel_http_readonly_queries_on_client_close = 1 CHANGEABLE_IN_READONLY,
  max_concurrent_queries_for_user = 10,
  max_execution_time = 30 MIN 1 MAX 3600 CHANGEABLE_IN_READONLY,
  max_memory_usage = 4000000000 MIN 1 MAX 4000000000 CHANGEABLE_IN_READONLY,
  max_result_rows MIN 1 MAX 100000 CHANGEABLE_IN_READONLY,
  max_result_bytes MIN 1 MAX 268435456 CHANGEABLE_IN_READONLY,
  result_overflow_mode CONST, max_threads CHANGEABLE_IN_READONLY, max_block_size CHANGEABLE_IN_READONLY,
  final CHANGEABLE_IN_READONLY, join_use_nulls CHANGEABLE_IN_READONLY, extremes CHANGEABLE_IN_READONLY,
  date_time_output_format CHANGEABLE_IN_READONLY, output_format_json_quote_64bit_integers CHANGEABLE_IN_READONLY,
  enable_http_compression CHANGEABLE_IN_READONLY, network_compression_method CHANGEABLE_IN_READONLY,
  network_zstd_compression_level CHANGEABLE_IN_READONLY, async_insert CHANGEABLE_IN_READONLY,
  wait_for_async_insert CHANGEABLE_IN_READONLY, alter_sync CHANGEABLE_IN_READONLY, mutations_sync CHANGEABLE_IN_READONLY,
  lightweight_deletes_sync CHANGEABLE_IN_READONLY, insert_distributed_sync CHANGEABLE_IN_READONLY,
  send_progress_in_http_headers CHANGEABLE_IN_READONLY, http_headers_progress_interval_ms CHANGEABLE_IN_READONLY,
  session_timezone = 'UTC' CHANGEABLE_IN_READONLY;
CREATE USER questlog_reader IDENTIFIED BY '<password>' SETTINGS PROFILE 'questlog_reader';
CREATE QUOTA questlog_reader FOR INTERVAL 1 hour MAX execution_time = 10800 TO questlog_reader;
GRANT SELECT ON questlog.* TO questlog_reader;
-- KILL QUERY needs this table. The account sees only its own queries.
CREATE ROW POLICY questlog_reader ON system.processes USING user = currentUser() TO questlog_reader;
GRANT SELECT ON system.processes TO questlog_reader;
