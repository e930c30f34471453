/** The engine's server configuration: what must be known before a directory is opened. A file, as only that is read whole. */

import { MAX_ENGINE_MEMORY_BYTES } from './limits.ts';

/**
 * `merge_tree` here is the default of every table that is made: tried, such settings are no query settings (`SET`
 * refuses them, error 115), are ignored as arguments (`--merge_tree.…`), and work in this file and in a table's DDL.
 */
export function engineConfig(): string {
  return `<clickhouse>
  <max_server_memory_usage>${MAX_ENGINE_MEMORY_BYTES}</max_server_memory_usage>
  <mark_cache_size>${32 * MiB}</mark_cache_size>
  <primary_index_cache_size>${32 * MiB}</primary_index_cache_size>
  <index_mark_cache_size>${16 * MiB}</index_mark_cache_size>
  <query_condition_cache_size>${8 * MiB}</query_condition_cache_size>
  <compiled_expression_cache_size>${16 * MiB}</compiled_expression_cache_size>
  <parquet_metadata_cache_size>${16 * MiB}</parquet_metadata_cache_size>
  <max_parts_cleaning_thread_pool_size>2</max_parts_cleaning_thread_pool_size>
  <max_active_parts_loading_thread_pool_size>2</max_active_parts_loading_thread_pool_size>
  <max_outdated_parts_loading_thread_pool_size>2</max_outdated_parts_loading_thread_pool_size>
  <merge_tree>
    <fsync_after_insert>1</fsync_after_insert>
    <fsync_part_directory>1</fsync_part_directory>
  </merge_tree>
</clickhouse>
`;
}

const MiB = 1024 * 1024;
