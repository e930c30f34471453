/** The settings that every query gets, and those that make an INSERT one block that is written when it is answered. */

import {
  MAX_EXECUTION_TIME_S,
  MAX_ONE_BLOCK_BYTES,
  MAX_QUERY_MEMORY_BYTES,
  MAX_RESULT_BYTES,
} from './limits.ts';

type Settings = ReadonlyMap<string, string>;

/** For a statement without data; the caller's settings win over the defaults. */
export function statementSettings(own: Settings): Settings {
  return new Map([...DEFAULTS, ...withoutBlockDeduplication(own), ...own, ...FORCED]);
}

/** For an INSERT of so many bytes; `settingsText` are those that the statement has itself. */
export function insertSettings(own: Settings, settingsText: string | undefined, bytes: number): Settings {
  const isDeduplicating = settingsText !== undefined && /deduplica/i.test(settingsText);
  const deduplication = isDeduplicating ? [] : withoutBlockDeduplication(own);
  const blocks = bytes <= MAX_ONE_BLOCK_BYTES ? ONE_BLOCK : LARGE_BLOCKS;
  return new Map([...DEFAULTS, ...blocks, ...deduplication, ...own, ...FORCED]);
}

/**
 * On a table with a de-duplication window the engine also drops an insert without a token whose rows are those of an
 * earlier one. Two equal inserts are two inserts here, unless the caller asks for something else.
 */
function withoutBlockDeduplication(own: Settings): [string, string][] {
  return own.has('insert_deduplication_token') ? [] : [['insert_deduplicate', '0']];
}

const DEFAULTS: readonly (readonly [string, string])[] = [
  ['max_execution_time', String(MAX_EXECUTION_TIME_S)],
  ['max_memory_usage', String(MAX_QUERY_MEMORY_BYTES)],
  ['max_result_bytes', String(MAX_RESULT_BYTES)],
  // chdb takes `1 + 1` for a query; a server does not.
  ['implicit_select', '0'],
];

/** The engine cuts a block when one of these is reached, which a body of this size does not. */
const ONE_BLOCK: readonly (readonly [string, string])[] = [
  ['max_insert_block_size', '1000000000'],
  ['min_insert_block_size_rows', '1000000000'],
  ['min_insert_block_size_bytes', '100000000000'],
  ['max_insert_threads', '1'],
];

/** A bulk load: its memory has to be bounded, and a server would cut it too. */
const LARGE_BLOCKS: readonly (readonly [string, string])[] = [
  ['min_insert_block_size_rows', '0'],
  ['min_insert_block_size_bytes', String(MAX_ONE_BLOCK_BYTES)],
  ['max_insert_threads', '1'],
];

/** An asynchronous insert would be acknowledged before it ran, and parallel parsing cuts blocks. */
const FORCED: readonly (readonly [string, string])[] = [
  ['async_insert', '0'],
  ['input_format_parallel_parsing', '0'],
];
