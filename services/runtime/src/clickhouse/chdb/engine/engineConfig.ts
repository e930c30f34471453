/** Creates the content of the engine's configuration file and users file. */

import { STUDIO_TABLES } from '../../studioTables.ts';
import { MAX_ENGINE_MEMORY_BYTES } from './limits.ts';
import { boundedSettings, readableSystemTables, visibleSettings } from './readerAccess.ts';
import { studioFilters } from './studioAccess.ts';

/** Roles of the engine's only user. `SET ROLE` restricts a connection to one role. `STUDIO` reads the rows of one studio. */
export const READER = 'reader';
export const STUDIO = 'studio';
const PRODUCT = 'product';

/**
 * Returns the content of the engine's configuration file. `memory_worker_period_ms` is 1,000, because the default of 50 ms
 * costs a fifth of the CPU time of an idle engine. The settings that end in `when_no_work_multiplier` are 1.5, because the
 * default of 1.1 doubles the CPU time of the first minute.
 * @param backups the only folder that BACKUP and RESTORE can use.
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

/** Backup path that does not exist. If the configuration contained no backup path, BACKUP could write to every path. */
const NOWHERE = '/dev/null/';

function inXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}

/** Returns the content of the engine's users file. No role has a grant to read files or URLs. */
export function usersConfig(): string {
  const ofSystem = readableSystemTables.map((table) => `system.${table}`);
  const readable = [`${PRODUCT_DATABASES}.*`, ...ofSystem];
  const ofStudios = [...STUDIO_TABLES.map((table) => `${DATABASE}.${table}`), ...ofSystem];
  const policies = studioFilters([PRODUCT, READER]).map(
    ([table, condition]) => `<${table}><filter>${condition}</filter></${table}>`,
  );
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
    <${STUDIO}>${grants(ofStudios.map((table) => `SELECT ON ${table}`))}</${STUDIO}>
    <${PRODUCT}>${grants([PRODUCT_GRANTS])}</${PRODUCT}>
  </roles>
  <users>
    <default>
      <password/>
      <networks><ip>::/0</ip></networks>
      <profile>default</profile>
      <quota>default</quota>
      <databases>
        <system><settings><filter>has(currentRoles(), '${PRODUCT}') OR ${visibleSettings}</filter></settings></system>
        <${DATABASE}>${policies.join('')}</${DATABASE}>
      </databases>
      ${grants([READER, STUDIO, PRODUCT])}
    </default>
  </users>
  <quotas><default/></quotas>
</clickhouse>
`;
}

/** Questlog's database. chdb's own database `default` is unsuitable, because every start recreates it. */
export const DATABASE = 'questlog';
const PRODUCT_DATABASES = 'questlog*';
const PRODUCT_GRANTS =
  'SHOW, SELECT, INSERT, ALTER, CREATE, DROP, TRUNCATE, BACKUP, OPTIMIZE, KILL QUERY, SYSTEM, dictGet, TABLE ENGINE ON *.*';

const MiB = 1024 * 1024;
