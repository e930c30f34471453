/** The engine's configuration and its users: what must be known before a directory is opened. Files, as only those are read whole. */

import { MAX_ENGINE_MEMORY_BYTES } from './limits.ts';
import { boundedSettings, readableSystemTables } from './readerAccess.ts';

/** Roles of the one user that every connection is; `SET ROLE` leaves it with one of them. */
export const READER = 'reader';
const PRODUCT = 'product';

/**
 * `merge_tree` here is the default of every table that is made: tried, such settings are no query settings (`SET`
 * refuses them, error 115), are ignored as arguments (`--merge_tree.…`), and work in this file and in a table's DDL.
 * The memory worker corrects what allocations are bounded by: every 50 ms, as is usual, that is a
 * fifth of what an idle engine costs. A table without work is looked at less and less often: by 1.5 each time, where 1.1 is usual,
 * which halves the cost of the first minute, and at least once a minute. A write or a mutation is seen at once; what comes by itself
 * (merges that are left over, old parts, a mutation that was cut) waits for the next look.
 *
 * @param backups the only folder that a BACKUP may write to, or a RESTORE read; none unless given.
 */
export function engineConfig(usersPath: string, backups?: string): string {
  return `<clickhouse>
  <users_config>${inXml(usersPath)}</users_config>
  <max_server_memory_usage>${MAX_ENGINE_MEMORY_BYTES}</max_server_memory_usage>
  <mark_cache_size>${32 * MiB}</mark_cache_size>
  <primary_index_cache_size>${32 * MiB}</primary_index_cache_size>
  <index_mark_cache_size>${16 * MiB}</index_mark_cache_size>
  <query_condition_cache_size>${8 * MiB}</query_condition_cache_size>
  <compiled_expression_cache_size>${16 * MiB}</compiled_expression_cache_size>
  <parquet_metadata_cache_size>${16 * MiB}</parquet_metadata_cache_size>
  <memory_worker_period_ms>1000</memory_worker_period_ms>
  <background_processing_pool_task_sleep_seconds_when_no_work_multiplier>1.5</background_processing_pool_task_sleep_seconds_when_no_work_multiplier>
  <background_processing_pool_task_sleep_seconds_when_no_work_max>60</background_processing_pool_task_sleep_seconds_when_no_work_max>
  <background_streaming_processing_pool_task_sleep_seconds_when_no_work_multiplier>1.5</background_streaming_processing_pool_task_sleep_seconds_when_no_work_multiplier>
  <max_parts_cleaning_thread_pool_size>2</max_parts_cleaning_thread_pool_size>
  <max_active_parts_loading_thread_pool_size>2</max_active_parts_loading_thread_pool_size>
  <max_outdated_parts_loading_thread_pool_size>2</max_outdated_parts_loading_thread_pool_size>
  <backups><allowed_path>${inXml(backups ?? NOWHERE)}</allowed_path></backups>
  <merge_tree>
    <fsync_after_insert>1</fsync_after_insert>
    <fsync_part_directory>1</fsync_part_directory>
  </merge_tree>
</clickhouse>
`;
}

/** Without a path, all would be allowed. */
const NOWHERE = '/dev/null/';

function inXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}

/**
 * Nobody is granted a source: neither files nor addresses can be read or written as tables. (An INSERT's file comes from
 * the front, which needs no grant.) The constraints of the profile bind whoever has set it.
 */
export function usersConfig(): string {
  const readable = [`${PRODUCT_DATABASES}.*`, ...readableSystemTables.map((table) => `system.${table}`)];
  const grants = (queries: readonly string[]) =>
    `<grants>${queries.map((query) => `<query>GRANT ${query}</query>`).join('')}</grants>`;
  const bounds = [...boundedSettings].map(
    ([name, max]) => `<${name}><min>1</min><max>${max}</max></${name}>`,
  );
  return `<clickhouse>
  <profiles>
    <default/>
    <${READER}><constraints>${bounds.join('')}</constraints></${READER}>
  </profiles>
  <roles>
    <${READER}>${grants(readable.map((table) => `SELECT ON ${table}`))}</${READER}>
    <${PRODUCT}>${grants([PRODUCT_GRANTS])}</${PRODUCT}>
  </roles>
  <users>
    <default>
      <password/>
      <networks><ip>::/0</ip></networks>
      <profile>default</profile>
      <quota>default</quota>
      ${grants([READER, PRODUCT])}
    </default>
  </users>
  <quotas><default/></quotas>
</clickhouse>
`;
}

/** Of every deployment on a stack that shares one engine: `questlog_a`, `questlog_b`. */
const PRODUCT_DATABASES = 'questlog*';
const PRODUCT_GRANTS =
  'SHOW, SELECT, INSERT, ALTER, CREATE, DROP, TRUNCATE, BACKUP, OPTIMIZE, KILL QUERY, SYSTEM, dictGet, TABLE ENGINE ON *.*';

const MiB = 1024 * 1024;
