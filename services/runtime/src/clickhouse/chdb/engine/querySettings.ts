/** The settings that every query gets, and those that make an INSERT one block that is written when it is answered. */

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

/** For a statement without data; the caller's settings win over the defaults. */
export function statementSettings(callerSettings: Settings, sql: string): Settings {
  return new Map([...DEFAULTS, ...deduplication(callerSettings, sql), ...callerSettings, ...FORCED]);
}

/** For a statement of a reader, whose own settings are made later, within bounds. */
export function readerSettings(): Settings {
  const bounds = Array.from(boundedSettings, ([name, most]) => [name, String(most)] as const);
  return new Map([...DEFAULTS, ...READER_SPILLS, ...bounds, ...FORCED]);
}

/** For an INSERT of so many bytes; `clauses` hold the settings that the statement has itself. */
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
 * On a table with a de-duplication window the engine also drops an insert without a token whose rows are those of an
 * earlier one. Two equal inserts are two inserts here, unless the caller says anything about it. (`insert_deduplicate`
 * would not do: tried on 26.7, `deduplicate_insert` overrides it, and its default is `enable`.)
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
  // chdb takes `1 + 1` for a query; a server does not.
  ['implicit_select', '0'],
];

const READER_SPILLS: Pairs = [
  ['max_bytes_before_external_sort', String(READER_SPILL_BYTES)],
  ['max_bytes_before_external_group_by', String(READER_SPILL_BYTES)],
  ['temporary_files_buffer_size', String(READER_SPILL_BUFFER_BYTES)],
  // The default is a hash join that is converted to a grace join. The conversion exceeds the memory of a reader (measured
  // on 26.7).
  ['join_algorithm', 'direct,grace_hash,hash'],
  ['max_bytes_in_join', String(READER_SPILL_BYTES)],
];

/** The engine cuts a block when one of these is reached, which a body of this size does not. */
const ONE_BLOCK: Pairs = [
  ['max_insert_block_size', '1000000000'],
  ['min_insert_block_size_rows', '1000000000'],
  ['min_insert_block_size_bytes', '100000000000'],
  ['max_insert_threads', '1'],
];

/** A bulk load: its memory has to be bounded, and a server would cut it too. */
const LARGE_BLOCKS: Pairs = [
  ['min_insert_block_size_rows', '0'],
  ['min_insert_block_size_bytes', String(MAX_ONE_BLOCK_BYTES)],
  ['max_insert_threads', '1'],
];

/** An asynchronous insert would be acknowledged before it ran, and parallel parsing cuts blocks. */
const FORCED: Pairs = [
  ['async_insert', '0'],
  ['input_format_parallel_parsing', '0'],
];
