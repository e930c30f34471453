/** Divides the rows of a project into chunks. A chunk is a range of log offsets within a day of receipt. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { ExportOffset, ExportPlan, ExportScope } from '@questlog/schemas/http/export';
import type { Project } from '@questlog/schemas/topics/directoryEntry';
import { exportedRows } from './exportedRows.ts';

/** Approximate size of a chunk before compression. A chunk is the part of an export that a failed request repeats. */
const CHUNK_BYTES = 64 * 1024 * 1024;
/** Estimated bytes of a row without its long texts. */
const ROW_BYTES = 200;
/** Number of offsets that a chunk never divides. Larger groups need less memory to plan. */
const GROUPED_OFFSETS = 64;

export async function planExport(
  store: Pick<Store, 'query'>,
  { tenantId, id: projectId }: Pick<Project, 'tenantId' | 'id'>,
  { kind, from, to }: Pick<ExportScope, 'kind' | 'from' | 'to'>,
  after: readonly ExportOffset[],
): Promise<ExportPlan> {
  const rows = exportedRows(kind);
  // Reads the offsets before the rows, because only the rows below the offsets are complete.
  const offsets = await projectedOffsets(store, rows.topic);
  const ranges = offsets.map((offset) => ({ ...offset, first: exportedBelow(after, offset) }));
  const chunks = await store.query<
    Record<'day' | 'logId' | 'firstOffset' | 'lastOffset' | 'rows', string> & { partition: number }
  >(
    `SELECT toString(day) AS day, logId, partition, min(first) AS firstOffset, max(last) AS lastOffset, sum(rows) AS rows
     FROM (
       SELECT *, intDiv(sum(bytes) OVER (PARTITION BY day, logId, partition ORDER BY first) - 1, ${CHUNK_BYTES}) AS chunk
       FROM (
         SELECT toDate(${rows.time}) AS day, log_id AS logId, log_partition AS partition, min(log_offset) AS first,
                max(log_offset) AS last, count() AS rows, toUInt64(sum(${ROW_BYTES} + ${rows.textBytes})) AS bytes
         FROM ${rows.from}
         INNER JOIN (
           SELECT range_log, range_partition, range_first, range_next FROM system.one
           ARRAY JOIN {logs:Array(UUID)} AS range_log, {partitions:Array(UInt32)} AS range_partition,
                      {firsts:Array(UInt64)} AS range_first, {nexts:Array(UInt64)} AS range_next
         ) AS ranges ON log_id = range_log AND log_partition = range_partition
         WHERE tenant_id = {tenantId:UUID} AND project_id = {projectId:UUID} AND ${rows.condition}
           AND log_offset >= range_first AND log_offset < range_next
           AND toDate(${rows.time}) >= {from:Date} AND toDate(${rows.time}) < {to:Date}
         GROUP BY day, logId, partition, intDiv(log_offset, ${GROUPED_OFFSETS})
       )
     )
     GROUP BY day, logId, partition, chunk
     ORDER BY day, logId, partition, firstOffset
     SETTINGS query_plan_join_swap_table = 'false'`,
    {
      ...{ tenantId, projectId, from: from ?? FIRST_DAY, to: to ?? LAST_DAY },
      logs: ranges.map(({ logId }) => logId),
      partitions: ranges.map(({ partition }) => partition),
      firsts: ranges.map(({ first }) => first),
      nexts: ranges.map(({ nextOffset }) => nextOffset),
    },
  );
  return {
    offsets,
    chunks: chunks.map(({ firstOffset, lastOffset, rows: count, ...chunk }) => ({
      ...chunk,
      ...{ firstOffset: Number(firstOffset), lastOffset: Number(lastOffset), rows: Number(count) },
    })),
  };
}

/** First and last day of ClickHouse's type `Date`. */
const FIRST_DAY = '1970-01-01';
const LAST_DAY = '2149-06-06';

async function projectedOffsets(store: Pick<Store, 'query'>, topic: string): Promise<ExportOffset[]> {
  const rows = await store.query<{
    readonly logId: string;
    readonly partition: number;
    readonly nextOffset: string;
    readonly truncatedLogId: string | null;
    readonly truncatedFrom: string | null;
  }>(
    `SELECT log_id AS logId, partition, next_offset AS nextOffset, truncated_log_id AS truncatedLogId,
            truncated_from AS truncatedFrom
     FROM projected_offsets WHERE topic = {topic:String} ORDER BY log_id, partition`,
    { topic },
  );
  return rows.map(({ nextOffset, truncatedFrom, ...row }) => ({
    ...row,
    nextOffset: Number(nextOffset),
    truncatedFrom: truncatedFrom === null ? null : Number(truncatedFrom),
  }));
}

function exportedBelow(after: readonly ExportOffset[], { logId, partition }: ExportOffset): number {
  return after.find((one) => one.logId === logId && one.partition === partition)?.nextOffset ?? 0;
}
