/** Reads the rows of a chunk as the bytes of a file. ClickHouse encodes the rows. */
import type { Readable } from 'node:stream';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { ExportChunkInput } from '@questlog/schemas/http/export';
import type { Project } from '@questlog/schemas/topics/directoryEntry';
import { exportedRows } from './exportedRows.ts';
import { isSamePartition, projectedOffsets, requireUnchanged } from './projectedOffsets.ts';
import { MEMORY_SETTINGS } from './queryMemory.ts';

export interface Chunk {
  readonly rows: number;
  readonly state: string;
  readonly content: Readable;
}

const FORMATS: Readonly<Record<ExportChunkInput['format'], string>> = {
  parquet: 'Parquet',
  csv: 'CSVWithNames',
  ndjson: 'JSONEachRow',
};

/** With small row groups and one thread, ClickHouse needs little memory for a chunk. */
const SETTINGS = {
  ...MEMORY_SETTINGS,
  max_threads: 1,
  max_result_bytes: 0,
  output_format_parquet_compression_method: 'zstd',
  output_format_parquet_row_group_size: 100_000,
  output_format_parquet_row_group_size_bytes: 32 * 1024 * 1024,
  date_time_output_format: 'iso',
};

/**
 * Suffix of the state of a chunk that was read during an erasure. A later run then always reads the chunk again. During an erasure, a
 * replica can return erased rows while another replica returns the state without these rows.
 */
const READ_DURING_ERASURE = '?';

/**
 * Returns the rows of a chunk, or undefined if the chunk still has the state `exceptState`. Compares the state before and after
 * the query, so that the number of rows is correct even if an erasure ends at the same time. Below the projected offset, rows are
 * only removed or replaced by later versions.
 * @param isErasing true if an erasure of the project has not hidden all its rows yet
 * @throws Rejected if the offsets of the plan no longer apply to the rows of the chunk
 */
export async function readChunk(
  store: Store,
  project: Pick<Project, 'tenantId' | 'id'>,
  { format, exceptState, offsets, ...chunk }: ExportChunkInput,
  signal: AbortSignal,
  isErasing: () => boolean,
): Promise<Chunk | undefined> {
  const rows = exportedRows(chunk.kind);
  const { day, logId, partition, firstOffset, lastOffset } = chunk;
  if (!offsets.some((one) => isSamePartition(one, chunk) && lastOffset < one.nextOffset))
    throw new Rejected('precondition_failed', `offset ${lastOffset} is not below the offsets of the plan`);
  const params = {
    tenantId: project.tenantId,
    projectId: project.id,
    day,
    logId,
    partition,
    firstOffset,
    lastOffset,
  };
  const source = `FROM ${rows.from}
    WHERE tenant_id = {tenantId:UUID} AND project_id = {projectId:UUID} AND ${rows.condition}
      AND ${rows.time} >= {day:Date} AND ${rows.time} < {day:Date} + INTERVAL 1 DAY
      AND log_id = {logId:UUID} AND log_partition = {partition:UInt32}
      AND log_offset BETWEEN {firstOffset:UInt64} AND {lastOffset:UInt64}`;
  const currentState = async () => {
    const sql = `SELECT count() AS rows, toUInt64(sum(${rows.version})) AS versions ${source}`;
    const [row] = await store.query<{ rows: string; versions: string }>(sql, params, MEMORY_SETTINGS);
    requireUnchanged(offsets, await projectedOffsets(store, rows.topic));
    return { rows: Number(row?.rows), state: `${row?.rows}.${row?.versions}` };
  };
  for (;;) {
    const wasErasing = isErasing();
    const before = await currentState();
    if (before.state === exceptState) return undefined;
    const sql = `SELECT ${rows.columns} ${source} FORMAT ${FORMATS[format]}`;
    const content = await store.stream(sql, params, SETTINGS, signal);
    const after = await currentState().catch((error: unknown) => {
      content.destroy();
      throw error;
    });
    if (after.state === before.state) {
      const suffix = wasErasing || isErasing() ? READ_DURING_ERASURE : '';
      return { ...before, state: before.state + suffix, content };
    }
    content.destroy();
  }
}
