/** Limits the memory of the queries of an export in ClickHouse. An export runs one query at a time. */

const MIB = 1024 * 1024;

/** Maximum memory of one query in bytes. ClickHouse ends a query that needs more. */
const MAX_MEMORY_BYTES = 256 * MIB;
/** Memory above which a sort or grouping continues on disk. */
const SPILL_BYTES = 64 * MIB;

export const MEMORY_SETTINGS = {
  max_memory_usage: MAX_MEMORY_BYTES,
  max_bytes_before_external_group_by: SPILL_BYTES,
  max_bytes_before_external_sort: SPILL_BYTES,
  max_threads: 1,
} as const;
