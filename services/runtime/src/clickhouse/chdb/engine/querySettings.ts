/**
 * Settings of the statements that the embedded ClickHouse runs. With these settings, ClickHouse stores the rows of an INSERT
 * (up to 64 MiB) as one block on disk before it sends the response.
 */

import {
  MAX_EXECUTION_SECONDS,
  MAX_ONE_BLOCK_BYTES,
  MAX_QUERY_MEMORY_BYTES,
  MAX_RESULT_BYTES,
  READER_SPILL_BUFFER_BYTES,
  READER_SPILL_BYTES,
  SPILL_BYTES,
} from './limits.ts';
import { boundedSettings } from './readerAccess.ts';

type Settings = ReadonlyMap<string, string>;
type Pairs = readonly (readonly [name: string, value: string])[];

export function statementSettings(callerSettings: Settings, sql: string): Settings {
  return new Map([...DEFAULTS, ...deduplication(callerSettings, sql), ...callerSettings, ...FORCED]);
}

export function readerSettings(): Settings {
  const bounds = Array.from(boundedSettings, ([name, most]) => [name, String(most)] as const);
  return new Map([...DEFAULTS, ...READER_SPILLS, ...bounds, ...FORCED]);
}

/**
 * Lowers a reader's time limit to the maximum, because some clients always send a limit that is longer than their own timeout. The
 * text `lowered` names the setting that was lowered.
 */
export function lowerTimeLimit(settings: Settings): { settings: Settings; lowered: string } {
  const max = boundedSettings.get(TIME_LIMIT);
  if (max === undefined || !(Number(settings.get(TIME_LIMIT)) > max)) return { settings, lowered: '' };
  return { settings: new Map([...settings, [TIME_LIMIT, String(max)]]), lowered: `${TIME_LIMIT}=${max}` };
}

const TIME_LIMIT = 'max_execution_time';

export function insertSettings(callerSettings: Settings, clauses: string, bytes: number): Settings {
  const blocks = bytes <= MAX_ONE_BLOCK_BYTES ? ONE_BLOCK : LARGE_BLOCKS;
  return new Map([
    ...DEFAULTS,
    ...blocks,
    ...deduplication(callerSettings, clauses),
    ...callerSettings,
    ...FORCED,
  ]);
}

/**
 * Disables deduplication of inserts if the caller has not chosen a mode. By default, ClickHouse can drop an insert whose rows
 * equal the rows of an earlier insert. Sets only `deduplicate_insert`, because this setting overrides `insert_deduplicate` in
 * ClickHouse 26.7.
 */
function deduplication(callerSettings: Settings, text: string): Pairs {
  const isChosenByCaller =
    /deduplica/i.test(text) || [...callerSettings.keys()].some((name) => name.includes('deduplica'));
  return isChosenByCaller ? [] : [['deduplicate_insert', 'disable']];
}

const DEFAULTS: Pairs = [
  ['max_execution_time', String(MAX_EXECUTION_SECONDS)],
  ['max_memory_usage', String(MAX_QUERY_MEMORY_BYTES)],
  ['max_result_bytes', String(MAX_RESULT_BYTES)],
  ['max_bytes_before_external_sort', String(SPILL_BYTES)],
  ['max_bytes_before_external_group_by', String(SPILL_BYTES)],
  ['implicit_select', '0'],
];

const READER_SPILLS: Pairs = [
  ['max_bytes_before_external_sort', String(READER_SPILL_BYTES)],
  ['max_bytes_before_external_group_by', String(READER_SPILL_BYTES)],
  ['temporary_files_buffer_size', String(READER_SPILL_BUFFER_BYTES)],
  // ClickHouse's default join algorithm exceeds a reader's memory limit (measured on ClickHouse 26.7).
  ['join_algorithm', 'direct,grace_hash,hash'],
  ['max_bytes_in_join', String(READER_SPILL_BYTES)],
];

/** High limits for an INSERT that must stay one block. The engine splits an INSERT that exceeds one of these limits. */
const ONE_BLOCK: Pairs = [
  ['max_insert_block_size', '1000000000'],
  ['min_insert_block_size_rows', '1000000000'],
  ['min_insert_block_size_bytes', '100000000000'],
  ['max_insert_threads', '1'],
];

/** Settings for a large INSERT. The engine splits the data into several blocks to save memory. */
const LARGE_BLOCKS: Pairs = [
  ['min_insert_block_size_rows', '0'],
  ['min_insert_block_size_bytes', String(MAX_ONE_BLOCK_BYTES)],
  ['max_insert_threads', '1'],
];

/**
 * Settings that callers cannot override. `async_insert` is 0, because an asynchronous insert is acknowledged before its rows
 * are stored.
 */
const FORCED: Pairs = [
  ['async_insert', '0'],
  ['input_format_parallel_parsing', '0'],
];
