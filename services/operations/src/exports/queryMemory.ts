/** Limits the memory of ClickHouse for the queries of an export. An export runs one query at a time. */

const MIB = 1024 * 1024;

/** Maximum memory of one query in bytes. If a query needs more, ClickHouse ends the query with an error. */
const MAX_MEMORY_BYTES = 256 * MIB;
/** Memory in bytes above which a sort or a grouping continues on disk. */
const SPILL_BYTES = 64 * MIB;
/** Maximum threads of one query. Each thread needs memory for its own buffers and its own part of a hash table. */
const MAX_THREADS = 4;

export const MEMORY_SETTINGS = {
  max_memory_usage: MAX_MEMORY_BYTES,
  max_bytes_before_external_group_by: SPILL_BYTES,
  max_bytes_before_external_sort: SPILL_BYTES,
  max_threads: MAX_THREADS,
} as const;
